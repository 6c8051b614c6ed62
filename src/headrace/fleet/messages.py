"""Messages between the process that serves and the process that holds an engine.

msgpack through msgspec tagged structs (`fleet.frames` keeps them apart); never pickle.
"""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from headrace.engine.output import Output
from headrace.engine.request import GenerationRequest, TokenIds
from headrace.engine.status import EngineStatus


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Start these generations; a request that can never run is answered with an error Output."""

    requests: list[GenerationRequest]


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop these generations now. Each is answered with an Output that finishes it as
    cancelled (with its token counts), unless it had ended already."""

    ids: list[str]


class Probe(msgspec.Struct, frozen=True, tag="probe"):
    """Ask for a Status; answered by the engine's own loop, so an answer proves progress."""

    nonce: int


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """End the process. The parent finishes live generations as errors when it is gone."""


ToWorker = Submit | Cancel | Probe | Shutdown


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The model is loaded and requests are welcome. max_step_tokens: computed in one step at
    most. memory: bytes the process holds at most."""

    model: str
    version: str
    isa: str
    threads: int
    blocks: int
    max_sequences: int
    max_step_tokens: int
    context_length: int
    memory: int
    pid: int


class Status(msgspec.Struct, frozen=True, tag="status"):
    """The answer to the Probe with this nonce."""

    nonce: int
    reading: EngineStatus


class Outputs(msgspec.Struct, frozen=True, tag="outputs"):
    """All that one step produced."""

    outputs: list[Output]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The engine could not start or cannot go on; the process ends after this."""

    error: str


FromWorker = Ready | Status | Outputs | Failed


def pack_ids(ids: Any) -> bytes:
    """Encoders' hook: token ids as their bytes. Both ends are on one machine."""
    if isinstance(ids, array):
        return ids.tobytes()
    raise NotImplementedError(f"a message cannot hold a {type(ids).__name__}")


def unpack_ids(_: type, ids: Any) -> TokenIds:
    """Decoders' hook: what `pack_ids` made, or a list of token ids."""
    return array("i", ids)
