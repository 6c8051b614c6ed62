"""Checkpoints as Hugging Face transformers saves them: a folder with config.json, safetensors,
tokenizer.json and its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.models.config import ConfigKeys
from headrace.models.dialects import DIALECTS, Dialect
from headrace.models.errors import ModelFileError
from headrace.models.gguf import Tensor
from headrace.models.jsonfile import read_object
from headrace.models.safetensors import SafetensorsFile
from headrace.models.sampling import Stated, of_generation_config
from headrace.models.shards import INDEX, read_shards, shard_paths
from headrace.ops.weights import DenseWeight, Weight, WeightSource

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
TOKENIZER_CONFIG, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
TEMPLATES = "additional_chat_templates/*.jinja"
PROCESSOR_CONFIGS = ("chat_template.json", "processor_config.json")
GENERATION_CONFIG, SPECIAL_TOKENS = "generation_config.json", "special_tokens_map.json"
OWN_FILES = (
    CONFIG,
    GENERATION_CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    SPECIAL_TOKENS,
    TEMPLATE,
    *PROCESSOR_CONFIGS,
    INDEX,
)
"""What a checkpoint is read from, besides named templates and safetensors."""

_OUTPUT, _EMBEDDING = "output.weight", "token_embd.weight"
_COMPUTED = ("rotary_emb.inv_freq", ".masked_bias")
"""Buffers of old checkpoints, which are made anew."""


def checkpoint_files(folder: Path) -> list[Path]:
    """All that a checkpoint is read from, in order of name. Raises ModelFileError if the folder
    holds no safetensors."""
    present = [folder / name for name in OWN_FILES if (folder / name).is_file()]
    named = folder.glob(TEMPLATES)
    return sorted([*present, *named, *shard_paths(folder)])


class HuggingFaceCheckpoint:
    """A folder. Raises ModelFileError where a file in it is faulty, ValueError naming the key of
    config.json that asks for what we cannot compute."""

    def __init__(self, path: Path) -> None:
        self.path = path
        config = read_object(path / CONFIG)
        self._dialect = _dialect(config)
        self.metadata: Mapping[str, object] = _text_config(config)
        self.architecture = self._dialect.architecture
        tokenizer = path / TOKENIZER
        self.tokenizer_file = tokenizer if tokenizer.is_file() else None
        self.left_out: list[str] = []
        self._files: dict[str, SafetensorsFile] = {}
        self._ids = _Ids(0, 0) if self.tokenizer_file is None else _Ids.read(self.tokenizer_file)

    def keys(self, context_length: int | None) -> Hyperparameters:
        tokens = None if self.tokenizer_file is None else self._ids.all
        keys = ConfigKeys(self.metadata, self.architecture, context_length, tokens)
        self._check_ids(keys.integer("vocab_size", 1, 1 << 24), "config.json has a 'vocab_size' of")
        for name in ("use_bidirectional_attention", "quantization_config"):
            if self.metadata.get(name):
                raise ValueError(f"key {name!r} asks for what is not supported")
        return keys

    def tensors(self) -> Mapping[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for stored, file in read_shards(self.path).items():
            name = self._dialect.gguf_name(stored)
            if name is None:
                if not stored.endswith(_COMPUTED):
                    self.left_out.append(stored)
                continue
            if name in tensors:
                raise ValueError(f"tensors {tensors[name].name!r} and {stored!r} are both {name!r}")
            tensors[name] = file.describe(stored)
            self._files[stored] = file
        embedding = tensors.get(_EMBEDDING)
        if embedding is not None:
            self._check_ids(embedding.shape[0], f"tensor {embedding.name!r} has rows for")
        if self._is_tied(_OUTPUT in tensors):
            output = tensors.pop(_OUTPUT, None)
            if output and embedding and not self._seem_equal(output, embedding):
                self.left_out.append(
                    f"{output.name} (differs from the embedding, which is used because of"
                    " 'tie_word_embeddings')"
                )
        return tensors

    def _check_ids(self, rows: int, limit: str) -> None:
        """Control tokens without a row are no text that a user could send; others are."""
        if self._ids.text > rows:
            raise ValueError(
                f"{TOKENIZER} has tokens up to id {self._ids.text - 1}, but {limit} {rows} ids"
            )

    def _seem_equal(self, one: Tensor, other: Tensor) -> bool:
        """Whether the tensors are equal in a sample of their bytes."""
        if (one.type, one.shape) != (other.type, other.shape):
            return False
        pairs = ((each, self._files[each.name]) for each in (one, other))
        ours, theirs = (file.sample(each) for each, file in pairs)
        return ours == theirs

    def _is_tied(self, has_output: bool) -> bool:
        """Whether the embedding is the output matrix, whatever else the file holds."""
        tied = self.metadata.get("tie_word_embeddings")
        if tied is None:
            tied = self._dialect.tied
        if not isinstance(tied, bool):
            raise ValueError(f"key 'tie_word_embeddings' must be true or false, not {tied!r}")
        if not tied and not has_output:
            raise ValueError(
                "tensor 'lm_head.weight' is missing, and 'tie_word_embeddings' does not say that"
                " the embedding takes its place"
            )
        return tied

    def stored_name(self, name: str) -> str:
        return self._dialect.stored_name(name)

    def chat_templates(self) -> Mapping[str, str]:
        """Files of their own come first; then the tokenizer's config, as a text or a list of named
        ones; then what a processor of several kinds of input has."""
        texts = {"default": self.path / TEMPLATE} | {
            path.stem: path for path in sorted(self.path.glob(TEMPLATES))
        }
        own = {name: _read_text(path) for name, path in texts.items() if path.is_file()}
        for name in (TOKENIZER_CONFIG, *PROCESSOR_CONFIGS):
            if "default" not in own and (stated := _stated_templates(self.path / name)):
                return stated | own
        return own

    def sampling(self) -> Stated:
        path = self.path / GENERATION_CONFIG
        return of_generation_config(read_object(path) if path.is_file() else {})

    def weights(self, tensors: Mapping[str, Tensor]) -> WeightSource:
        return _Weights(tensors, self._files, self._dialect.norm_offset)


class _Weights:
    """WeightSource over safetensors files. Of the mapped files only the tensor loaded last
    stays resident: beside packed weights the rest would count twice."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        files: Mapping[str, SafetensorsFile],
        norm_offset: float,
    ) -> None:
        self._tensors, self._files = tensors, files
        self._norm_offset = np.float32(norm_offset)
        self._last: Tensor | None = None

    def load(self, name: str) -> Weight:
        """Raises KeyError if there is no such tensor, ModelFileError on broken values."""
        tensor = self._tensors[name]
        if self._last is not None:
            self._files[self._last.name].release(self._last)
        self._last = tensor
        weight = self._files[tensor.name].weight(tensor)
        if self._norm_offset and name.endswith("norm.weight") and isinstance(weight, DenseWeight):
            return DenseWeight(weight.values + self._norm_offset)
        return weight


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except ValueError as error:
        raise ModelFileError(path, "is not UTF-8") from error


def _stated_templates(path: Path) -> dict[str, str]:
    """The templates that a config states, by name."""
    stated = read_object(path).get("chat_template") if path.is_file() else None
    if stated is None:
        return {}
    if isinstance(stated, str):
        return {"default": stated}
    pairs: list[Any] = [stated]
    if isinstance(stated, dict):
        pairs = list(stated.items())
    elif isinstance(stated, list):
        pairs = [
            (each.get("name"), each.get("template")) if isinstance(each, dict) else each
            for each in stated
        ]
    for pair in pairs:
        if not isinstance(pair, tuple) or not all(isinstance(part, str) for part in pair):
            raise ModelFileError(
                path, "key 'chat_template' must be a string, or a list of named strings"
            )
    return dict(pairs)


def _dialect(config: Mapping[str, Any]) -> Dialect:
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ValueError("key 'model_type' is missing or not a string")
    if kind not in DIALECTS:
        raise ValueError(f"model type {kind!r} is not supported; {', '.join(sorted(DIALECTS))} are")
    return DIALECTS[kind]


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Of a model that also sees, the part that reads."""
    text = config.get("text_config")
    if not isinstance(text, dict):
        return config
    outside = ("tie_word_embeddings", "quantization_config")
    return {**{key: config[key] for key in outside if key in config}, **text}


@dataclass(frozen=True, slots=True)
class _Ids:
    """Of a tokenizer.json: one more than the largest id, and than the largest of a token that text
    can become."""

    all: int
    text: int

    @classmethod
    def read(cls, path: Path) -> _Ids:
        """Raises ModelFileError."""
        data = read_object(path)
        try:
            vocabulary = data["model"]["vocab"]
            by_text = vocabulary if isinstance(vocabulary, dict) else {}
            added = {
                token["id"]: bool(token.get("special")) for token in data.get("added_tokens", [])
            }
            ids = list(by_text.values()) or list(range(len(vocabulary)))
            plain = [id for id in (*ids, *added) if not added.get(id)]
            return cls(int(max([*ids, *added])) + 1, int(max(plain, default=-1)) + 1)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(path, f"is no tokenizer as we know it: {error!r}") from error
