"""What chat and text completions have in common when they answer.

A stream's chunks differ in little more than their text. An answer therefore encodes what is
the same once, and a chunk is a few joined byte strings: the edge shares its cores with the
engine and writes one chunk per token of every stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import msgspec
from msgspec import Struct

from headrace.api import sse
from headrace.api.openai.service_tier import AnsweredTier
from headrace.api.openai.usage import Usage

LEAST_LOGPROB = -9999.0
"""Stands for every smaller log probability, and for what is none; JSON has no infinity."""


class LogprobLike(Protocol):
    """A token's bytes and log probability (None for a prompt's first token, which nothing
    predicted) with its alternatives (id, logprob, bytes)."""

    @property
    def token(self) -> int: ...
    @property
    def logprob(self) -> float | None: ...
    @property
    def piece(self) -> bytes: ...
    @property
    def top(self) -> Sequence[tuple[int, float, bytes]]: ...


class CallDeltaLike(Protocol):
    """More of a function call: its id and name with the first, arguments in pieces. at: how many
    characters of the text beside it stand before it."""

    @property
    def index(self) -> int: ...
    @property
    def id(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def arguments(self) -> str: ...
    @property
    def at(self) -> int: ...


class Call(Struct, frozen=True):
    """A function call. arguments: the pieces of its JSON text. at: how many characters of the
    answer's text stand before it."""

    id: str
    name: str
    arguments: list[str] = []
    at: int = 0


class Choice(Struct, frozen=True):
    """One finished choice of an answer that is not streamed. prompt_logprobs: of the prompt
    that is echoed before its text. reasoning: the thoughts before it. calls: in it. stop: the
    caller's stop text that ended it."""

    index: int
    text: str
    finish_reason: str
    logprobs: Sequence[LogprobLike] | None = None
    prompt_logprobs: Sequence[LogprobLike] | None = None
    reasoning: str = ""
    calls: Sequence[Call] = ()
    stop: str | None = None


class Head(Struct, frozen=True):
    """What every chunk of an answer repeats. created: unix seconds."""

    id: str
    created: int
    model: str
    fingerprint: str
    service_tier: AnsweredTier = "default"


TokenNames = Callable[[int], str]
"""A token id -> the token as its vocabulary writes it, for those that stand for no bytes."""


class Answer(Protocol):
    """Writes one answer, whole or as the events of a stream."""

    def beginning(self) -> bytes:
        """The events with which a stream begins, before anything is generated; may be empty."""
        ...

    def opening(self, index: int, prompt_logprobs: Sequence[LogprobLike] | None) -> bytes:
        """The events before a choice's first text; may be empty."""
        ...

    def delta(
        self,
        index: int,
        text: str,
        logprobs: Sequence[LogprobLike] | None,
        reasoning: str = "",
        calls: Sequence[CallDeltaLike] = (),
    ) -> bytes:
        """The event of more text, of thoughts that come before it, and of calls behind it."""
        ...

    def closing(self, index: int, finish_reason: str, stop: str | None = None) -> bytes:
        """The event that ends a choice. stop: the caller's stop text that ended it."""
        ...

    def ending(self, usage: Usage) -> bytes:
        """The events that end a stream that went well. usage: of the whole request."""
        ...

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        """The JSON body of an answer that is not streamed."""
        ...


class ChunkFrame:
    """The constant bytes around a stream's choices."""

    def __init__(self, head: Head, object: str, *, include_usage: bool) -> None:
        self._head = head
        self._object = object
        self._include_usage = include_usage
        self._end = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"

    @cached_property
    def _start(self) -> bytes:
        fields = {
            "id": self._head.id,
            "object": self._object,
            "created": self._head.created,
            "model": self._head.model,
            "service_tier": self._head.service_tier,
            "system_fingerprint": self._head.fingerprint,
        }
        return b"data: " + msgspec.json.encode(fields)[:-1] + b',"choices":['

    def choice(self, *parts: bytes) -> bytes:
        """An event with one choice, whose JSON object is the parts joined."""
        return b"".join((self._start, *parts, self._end))

    def ending(self, usage: Usage) -> bytes:
        """An event without choices, where usage is included, and what ends the stream."""
        if not self._include_usage:
            return sse.DONE
        body = b'%b],"usage":%b}' % (
            self._start.removeprefix(b"data: "),
            msgspec.json.encode(usage),
        )
        return sse.event(body) + sse.DONE


def finite(logprob: float | None) -> float | None:
    if logprob is None:
        return None
    return logprob if logprob > LEAST_LOGPROB else LEAST_LOGPROB


def printable(token: int, piece: bytes, names: TokenNames) -> str:
    """A token's text; bytes that are only part of a character are written as `\\xe4`, a token
    without bytes by its name."""
    return piece.decode(errors="backslashreplace") if piece else names(token)
