"""Opening a model: from a checkpoint on disk to a program and the weights it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from headrace.models.architectures import ARCHITECTURES
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.models.errors import ModelFileError
from headrace.models.formats import decode
from headrace.models.gguf import GgufFile, Tensor, read_gguf
from headrace.ops.checks import required_weights, vocabulary_weights
from headrace.ops.program import Program
from headrace.ops.weights import Weight, WeightSource

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint that passed every check; weights are read when a backend asks for them.

    metadata, tensors: the file's key-values and descriptions of its tensors.
    """

    architecture: str
    program: Program
    weights: WeightSource
    metadata: Mapping[str, object]
    context_length: int
    chat_template: str | None
    tensors: Mapping[str, Tensor]


class GgufWeights:
    """WeightSource over a GGUF file. Of the mapped file only the tensor loaded last stays
    resident: beside packed weights the rest would count twice."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._last: str | None = None

    def load(self, name: str) -> Weight:
        """Raises KeyError if the file has no such tensor, ModelFileError on broken values."""
        tensor = self._file.tensors[name]
        if self._last is not None:
            self._file.release(self._last)
        self._last = name
        try:
            return decode(tensor.type, tensor.shape, self._file.raw(name))
        except ValueError as error:
            raise ModelFileError(self._file.path, f"tensor {name!r} {error}") from error


def open_model(path: Path) -> Model:
    """Map a GGUF file and build its program; no weight is read.

    Tensors the architecture does not use are ignored, with a warning that lists them.
    Raises ModelFileError, naming the key or tensor, if the file is broken, its architecture
    is unknown, or anything the architecture needs is missing or of the wrong shape.
    """
    file = read_gguf(path)
    try:
        architecture = _architecture(file.metadata)
        keys = Hyperparameters(file.metadata, architecture)
        program = ARCHITECTURES[architecture](keys, file.tensors.keys())
        _check_tensors(file, program)
        chat_template = _chat_template(file.metadata)
    except ValueError as error:
        raise ModelFileError(path, str(error)) from error
    return Model(
        architecture=architecture,
        program=program,
        weights=GgufWeights(file),
        metadata=file.metadata,
        context_length=program.context_length,
        chat_template=chat_template,
        tensors=file.tensors,
    )


def _architecture(metadata: Mapping[str, object]) -> str:
    key = "general.architecture"
    name = metadata.get(key)
    if not isinstance(name, str):
        raise ValueError(f"key {key!r} is missing or not a string")
    if name not in ARCHITECTURES:
        supported = ", ".join(sorted(ARCHITECTURES))
        raise ValueError(f"architecture {name!r} is not supported; {supported} are")
    return name


def _chat_template(metadata: Mapping[str, object]) -> str | None:
    key = "tokenizer.chat_template"
    template = metadata.get(key)
    if template is not None and not isinstance(template, str):
        raise ValueError(f"key {key!r} must be a string")
    return template


def _check_tensors(file: GgufFile, program: Program) -> None:
    vocabulary = vocabulary_weights(program)
    needed = dict(required_weights(program))
    for name, shape in needed.items():
        if name not in file.tensors:
            raise ValueError(f"tensor {name!r} is missing")
        _check_shape(file.tensors[name], shape, at_least=name in vocabulary)
    if extra := sorted(file.tensors.keys() - needed.keys()):
        log.warning("tensors not used", file=str(file.path), tensors=extra)


def _check_shape(tensor: Tensor, shape: tuple[int, ...], *, at_least: bool) -> None:
    """at_least: more rows than the tokenizer has tokens are padding."""
    found = tensor.shape
    padded = at_least and len(found) == len(shape) and found[0] > shape[0]
    if found[padded:] != shape[padded:]:
        least = "at least " if at_least else ""
        raise ValueError(f"tensor {tensor.name!r} has shape {found}; {least}{shape} is needed")
    if len(shape) == 1 and tensor.type.block > 1:
        raise ValueError(f"tensor {tensor.name!r} is {tensor.type.name}; a vector must be dense")
