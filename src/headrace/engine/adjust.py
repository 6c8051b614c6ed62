"""What a request changes in its logits before a token is drawn: penalties, biases, bans."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from headrace.engine.request import SamplingParams

Entries = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]
"""Tokens int32 [A], what divides their logits, and what is added to them, float32 [A]."""


class LogitAdjuster:
    """The sparse logit changes of one generation, kept up to date token by token.

    Penalties follow OpenAI and vLLM: presence and frequency look at generated tokens only and
    are subtracted; repetition looks at the prompt too and divides positive logits (multiplies
    negative ones). A bias is added after them. Ids in `ending` are banned while fewer than
    `min_tokens` tokens are generated.
    """

    def __init__(
        self, params: SamplingParams, prompt: Iterable[int], ending: Iterable[int], min_tokens: int
    ) -> None:
        self._params = params
        self._min_tokens = min_tokens
        self._generated = 0
        self._biased = np.array(list(params.logit_bias), np.int32)
        self._bias = np.array(list(params.logit_bias.values()), np.float32)
        self._banned = np.array(sorted(ending) if min_tokens else [], np.int32)
        self._repetition = params.repetition_penalty != 1.0
        self._penalises = self._repetition or bool(
            params.presence_penalty or params.frequency_penalty
        )
        # Distinct tokens seen, in order of appearance, and how often each was generated.
        self._slots: dict[int, int] = {}
        self._seen = np.zeros(64, np.int32)
        self._counts = np.zeros(64, np.int32)
        if self._repetition:
            for token in dict.fromkeys(prompt):
                self._slot(token)

    def add(self, token: int) -> None:
        """Take note of a generated token."""
        self._generated += 1
        if self._penalises:
            slot = self._slot(token)  # may replace the arrays by larger ones
            self._counts[slot] += 1

    def entries(self, after: Collection[int] = ()) -> list[Entries]:
        """Groups to apply in order. after: generated tokens to take for granted this once."""
        known = len(self._slots)
        for token in after:
            self.add(token)
        groups = self._groups()
        self._take_back(after, known)
        return groups

    def _take_back(self, tokens: Collection[int], known: int) -> None:
        """Undo the last additions; before them `known` distinct tokens were seen."""
        self._generated -= len(tokens)
        if self._penalises:
            for token in tokens:
                self._counts[self._slots[token]] -= 1
            while len(self._slots) > known:
                self._slots.popitem()

    def _groups(self) -> list[Entries]:
        groups = []
        if self._slots:
            groups.append(self._penalties())
        if len(self._biased):
            groups.append((self._biased, np.ones_like(self._bias), self._bias))
        if self._generated < self._min_tokens and len(self._banned):
            ones = np.ones(len(self._banned), np.float32)
            groups.append((self._banned, ones, np.full_like(ones, -np.inf)))
        return groups

    def _penalties(self) -> Entries:
        params, size = self._params, len(self._slots)
        counts = self._counts[:size].astype(np.float32)
        add = -(params.frequency_penalty * counts + params.presence_penalty * (counts > 0))
        divide = np.full(size, params.repetition_penalty, np.float32)
        return self._seen[:size].copy(), divide, add.astype(np.float32)

    def _slot(self, token: int) -> int:
        slot = self._slots.setdefault(token, len(self._slots))
        if slot == len(self._seen):
            self._seen = np.concatenate([self._seen, np.zeros_like(self._seen)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._seen[slot] = token
        return slot


def adjuster_for(
    params: SamplingParams, prompt: Iterable[int], ending: Iterable[int], min_tokens: int
) -> LogitAdjuster | None:
    """A LogitAdjuster, or None if the request changes no logits (most don't)."""
    plain = (
        not params.logit_bias
        and min_tokens == 0
        and params.presence_penalty == 0
        and params.frequency_penalty == 0
        and params.repetition_penalty == 1
    )
    return None if plain else LogitAdjuster(params, prompt, ending, min_tokens)
