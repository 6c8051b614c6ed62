"""A workload: how many requests of what shape, how many at a time."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from importlib import resources

import msgspec


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`requests` completions, `streams` at a time, each with `shared` + `prompt` tokens in
    (the first `shared` are the same for all) and exactly `output` tokens out."""

    title: str
    streams: int
    requests: int
    prompt: int
    output: int
    shared: int = 0

    def prompts(self, ids: Sequence[int], rng: random.Random) -> list[list[int]]:
        """Token ids of every request's prompt, drawn from `ids`: of exact length, and new
        at every call, so that no cache of an earlier run helps by accident."""
        shared = rng.choices(ids, k=self.shared)
        return [shared + rng.choices(ids, k=self.prompt) for _ in range(self.requests)]


def builtin() -> dict[str, Workload]:
    """The workloads that ship with Headrace, by name."""
    text = resources.files("headrace.load").joinpath("workloads.toml").read_text()
    return msgspec.convert(tomllib.loads(text), dict[str, Workload])
