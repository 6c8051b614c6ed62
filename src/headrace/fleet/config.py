"""What a worker is told when it starts."""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.engine.budget import CHUNK_BESIDE
from headrace.ops.backend import KvCache


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Travels to the worker as one line of JSON, before all messages.

    path: the model file. model, version: the names it is served under. backend: "reference"
    is the slow numpy interpreter, for tests. isa: None for the best this machine has.
    threads: None for one a physical core (`fleet.cores`). memory: bytes the process may hold;
    kv_memory: bytes of KV cache; `sizes_for` says what None means. kv_cache: its keys' codes.
    context_length: None for the model's own. prefix_cache: whether KV blocks are kept for later
    prompts. repetition_stop: whether an answer with a form is cut when it repeats itself endlessly.
    target_itl in milliseconds, target_throughput in tokens a second: at most one. speculate: how
    tokens are guessed, at most speculate_tokens ahead of a sequence. draft_path: the file of the
    model that guesses, for "draft".
    """

    path: str
    model: str
    version: str
    backend: Literal["cpu", "reference"] = "cpu"
    isa: str | None = None
    quantization: Literal["w8", "w4"] | None = None
    threads: int | None = None
    memory: int | None = None
    kv_memory: int | None = None
    kv_cache: KvCache = "int16"
    max_sequences: int = 64
    max_step_tokens: int = 512
    context_length: int | None = None
    prefix_cache: bool = True
    repetition_stop: bool = True
    target_itl: float | None = None
    target_throughput: float | None = None
    speculate: Literal["off", "ngram", "draft"] = "off"
    speculate_tokens: int = 8
    draft_path: str | None = None
    log_level: str = "info"

    @property
    def max_guesses(self) -> int:
        """Of a sequence in a step."""
        return 0 if self.speculate == "off" else self.speculate_tokens

    @property
    def chunk_beside(self) -> int:
        """Tokens of a chunk beside the steps; 0 if none is computed there."""
        return 0 if self.target_itl is None else CHUNK_BESIDE


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The whole line: who the parent is, and the worker's own part."""

    parent: int
    config: WorkerConfig
