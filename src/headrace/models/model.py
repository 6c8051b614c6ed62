"""Opening a model: from a checkpoint on disk to a program and the weights it names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headrace.models.architectures import ARCHITECTURES
from headrace.models.architectures.hyperparameters import Hyperparameters, Sizes
from headrace.models.errors import ModelFileError
from headrace.models.formats import decode
from headrace.models.fused import take_apart
from headrace.models.gguf import GgufFile, Tensor
from headrace.models.huggingface import HuggingFaceCheckpoint
from headrace.models.quantisation import Quantised, Quantization, describe
from headrace.models.sampling import SamplingDefaults, Stated, of_gguf
from headrace.models.split import read_model
from headrace.ops.checks import required_weights, router_weights, vocabulary_weights
from headrace.ops.program import Program
from headrace.ops.weights import Weight, WeightSource

MAX_NAMED = 8
"""Kinds of unused tensors that are named."""

_TEMPLATE = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint that passed every check; weights are read when a backend asks for them.

    metadata: a GGUF file's key-values, or what config.json says. tensors: descriptions of the
    checkpoint's tensors, by the names that the program has for them and of the types that its
    weights come in. chat_template: the default one; tool_template: the one that is used instead
    where there are tools. tokenizer_file: a tokenizer.json, where the metadata do not hold it.
    sampling: how the files say that tokens should be drawn. ignored: what the files say or hold
    that would change answers and is not used: settings as `key=value`, templates, tensors.
    """

    architecture: str
    program: Program
    weights: WeightSource
    metadata: Mapping[str, object]
    context_length: int
    chat_template: str | None
    tensors: Mapping[str, Tensor]
    tokenizer_file: Path | None = None
    tool_template: str | None = None
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    ignored: tuple[str, ...] = ()


class Checkpoint(Protocol):
    """What `open_model` asks of either container. Everything raises ValueError."""

    path: Path
    architecture: str
    metadata: Mapping[str, object]
    tokenizer_file: Path | None

    @property
    def left_out(self) -> Sequence[str]:
        """Names of the tensors that `tensors` leaves out, once it was asked."""
        ...

    def keys(self, context_length: int | None) -> Hyperparameters: ...

    def tensors(self) -> Mapping[str, Tensor]:
        """By GGUF's names."""
        ...

    def stored_name(self, name: str) -> str:
        """What the checkpoint calls the tensor that GGUF gives this name."""
        ...

    def chat_templates(self) -> Mapping[str, str]:
        """By name; empty where there is none."""
        ...

    def sampling(self) -> Stated: ...

    def weights(self, tensors: Mapping[str, Tensor]) -> WeightSource: ...


def open_model(
    path: Path, context_length: int | None = None, quantization: Quantization | None = None
) -> Model:
    """Map a GGUF file (and the other files of a split model), or a folder with config.json and
    safetensors, and build its program; no weight is read.

    context_length: tokens that sequences may have here, as deployed; None: as the model allows.
    Rope scalings that depend on a sequence's length go by it, the same for all sequences.
    quantization: what float matrices become when they are read; None: they stay float.
    Tensors that are not used are named in the model's `ignored`.
    Raises ModelFileError, naming the key or tensor, if the file is broken, its architecture
    is unknown, or anything the architecture needs is missing or of the wrong shape.
    """
    try:
        checkpoint = open_checkpoint(path)
        keys = checkpoint.keys(context_length)
        tensors = take_apart(checkpoint.tensors(), Sizes.read(keys))
        program = ARCHITECTURES[checkpoint.architecture](keys, tensors.keys())
        unused = _check_tensors(checkpoint, tensors, program)
        answers = AnswerDefaults.of(checkpoint)
        weights = checkpoint.weights(tensors)
        if quantization is not None:
            kept = router_weights(program)
            needed = {name: tensors[name] for name, _ in required_weights(program)}
            vocabulary = vocabulary_weights(program)
            weights = Quantised(weights, quantization, kept, vocabulary)
            tensors = tensors | describe(needed, quantization, kept, vocabulary)
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(path, str(error)) from error
    return Model(
        architecture=checkpoint.architecture,
        program=program,
        weights=weights,
        metadata=checkpoint.metadata,
        context_length=program.context_length,
        chat_template=answers.chat_template,
        tensors=tensors,
        tokenizer_file=checkpoint.tokenizer_file,
        tool_template=answers.tool_template,
        sampling=answers.sampling,
        ignored=(*answers.ignored, *summary([*checkpoint.left_out, *unused])),
    )


def open_checkpoint(path: Path) -> Checkpoint:
    """Map a GGUF file, or a folder with config.json and safetensors, and read its metadata. Raises
    ValueError."""
    return HuggingFaceCheckpoint(path) if path.is_dir() else GgufCheckpoint(path)


@dataclass(frozen=True, slots=True)
class AnswerDefaults:
    """What a checkpoint's files say of how it is to be asked and how it answers; see `Model`."""

    chat_template: str | None
    tool_template: str | None
    sampling: SamplingDefaults
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> AnswerDefaults:
        """Raises ValueError."""
        templates = checkpoint.chat_templates()
        default = templates.get("default")
        if templates and default is None:
            default = _no_default(templates)
        others = sorted(templates.keys() - {"default", "tool_use"})
        sampling, ignored = checkpoint.sampling()
        unused = tuple(f"chat template {name!r}" for name in others)
        return cls(default, templates.get("tool_use"), sampling, (*ignored, *unused))


def _no_default(names: Iterable[str]) -> str:
    """A template that refuses, as transformers does, to choose among named ones."""
    listed = ", ".join(sorted(names))
    sentence = f"the model has chat templates only by name, and none is the default: {listed}"
    return f"{{{{ raise_exception({sentence!r}) }}}}"


class GgufCheckpoint:
    """A GGUF file, which holds everything, or several that do so together."""

    def __init__(self, path: Path) -> None:
        self._model = read_model(path)
        self.path = path
        self.metadata = self._model.metadata
        self.tokenizer_file: Path | None = None
        self.left_out: Sequence[str] = ()
        self.architecture = _architecture(self.metadata)

    def keys(self, context_length: int | None) -> Hyperparameters:
        return Hyperparameters(self.metadata, self.architecture, context_length)

    def tensors(self) -> Mapping[str, Tensor]:
        return self._model.tensors

    def stored_name(self, name: str) -> str:
        return name

    def chat_templates(self) -> Mapping[str, str]:
        templates: dict[str, str] = {}
        for key, value in self.metadata.items():
            if key != _TEMPLATE and not key.startswith(f"{_TEMPLATE}."):
                continue
            if not isinstance(value, str):
                raise ValueError(f"key {key!r} must be a string")
            templates[key.removeprefix(_TEMPLATE).removeprefix(".") or "default"] = value
        return templates

    def sampling(self) -> Stated:
        return of_gguf(self.metadata)

    def weights(self, tensors: Mapping[str, Tensor]) -> WeightSource:
        return GgufWeights(tensors, self._model.files)


class GgufWeights:
    """WeightSource over GGUF files. Of the mapped files only the tensor loaded last stays
    resident: beside packed weights the rest would count twice."""

    def __init__(self, tensors: Mapping[str, Tensor], files: Mapping[str, GgufFile]) -> None:
        """files: by the names that tensors have there."""
        self._tensors, self._files = tensors, files
        self._last: Tensor | None = None

    def load(self, name: str) -> Weight:
        """Raises KeyError if there is no such tensor, ModelFileError on broken values."""
        tensor = self._tensors[name]
        if self._last is not None:
            self._files[self._last.name].release(self._last)
        self._last = tensor
        file = self._files[tensor.name]
        try:
            return decode(tensor.type, tensor.shape, file.raw(tensor))
        except ValueError as error:
            raise ModelFileError(file.path, f"tensor {name!r} {error}") from error


def _architecture(metadata: Mapping[str, object]) -> str:
    key = "general.architecture"
    name = metadata.get(key)
    if not isinstance(name, str):
        raise ValueError(f"key {key!r} is missing or not a string")
    if name not in ARCHITECTURES:
        supported = ", ".join(sorted(ARCHITECTURES))
        raise ValueError(f"architecture {name!r} is not supported; {supported} are")
    return name


_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def summary(names: Iterable[str]) -> list[str]:
    """Names of tensors, those that differ in the numbers of layers and experts as one."""
    kinds = Counter(_NUMBER.sub("*", name) for name in names)
    named = [
        f"tensor {kind}" if count == 1 else f"{count} tensors {kind}"
        for kind, count in sorted(kinds.items())
    ]
    more = len(named) - MAX_NAMED
    return named if more <= 0 else [*named[:MAX_NAMED], f"{more} more kinds of tensors"]


def _check_tensors(
    checkpoint: Checkpoint, tensors: Mapping[str, Tensor], program: Program
) -> list[str]:
    """The names of those that the program does not use."""
    vocabulary = vocabulary_weights(program)
    needed = dict(required_weights(program))
    for name, shape in needed.items():
        if name not in tensors:
            raise ValueError(f"tensor {checkpoint.stored_name(name)!r} is missing")
        _check_shape(tensors[name], shape, at_least=name in vocabulary)
    used = {tensors[name].name for name in needed}
    return sorted({tensors[name].name for name in tensors.keys() - needed.keys()} - used)


def _check_shape(tensor: Tensor, shape: tuple[int, ...], *, at_least: bool) -> None:
    """at_least: more rows than the tokenizer has tokens are padding."""
    found = tensor.shape
    padded = at_least and len(found) == len(shape) and found[0] > shape[0]
    if found[padded:] != shape[padded:]:
        least = "at least " if at_least else ""
        raise ValueError(f"tensor {tensor.name!r} has shape {found}; {least}{shape} is needed")
    if len(shape) == 1 and tensor.type.block > 1:
        raise ValueError(f"tensor {tensor.name!r} is {tensor.type.name}; a vector must be dense")
