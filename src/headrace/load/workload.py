"""A workload: how many requests of what shape, how many at a time."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any, Literal

import msgspec

from headrace.load.client import Request


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`requests` completions, `streams` at a time, each with `shared` + `prompt` tokens in
    (the first `shared` are the same for all) and exactly `output` tokens out.

    With a `question` it is a chat instead: the question after a number that makes each
    prompt new, and an answer of at most `output` tokens that follows `schema`.
    judged_by: the figure that engines are compared by.
    """

    title: str
    streams: int
    requests: int
    prompt: int = 0
    output: int
    shared: int = 0
    question: str = ""
    schema: dict[str, Any] | None = None
    judged_by: Literal["output_rate", "ttft_p50"] = "output_rate"

    def drawn(self, ids: Sequence[int], rng: random.Random) -> list[Request]:
        """Every request. Token ids of prompts are drawn from `ids`: of exact length, and new
        at every call, so that no cache of an earlier run helps by accident."""
        return [
            Request(prompt=prompt, output=self.output, schema=self.schema)
            for prompt in (self._questions(rng) if self.question else self._prompts(ids, rng))
        ]

    def _prompts(self, ids: Sequence[int], rng: random.Random) -> list[list[int]]:
        shared = rng.choices(ids, k=self.shared)
        return [shared + rng.choices(ids, k=self.prompt) for _ in range(self.requests)]

    def _questions(self, rng: random.Random) -> list[str]:
        return [f"No. {rng.getrandbits(40)}. {self.question}" for _ in range(self.requests)]


def builtin() -> dict[str, Workload]:
    """The workloads that ship with Headrace, by name."""
    text = resources.files("headrace.load").joinpath("workloads.toml").read_text()
    return msgspec.convert(tomllib.loads(text), dict[str, Workload])
