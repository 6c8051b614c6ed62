"""Beginnings of prompts that were dispatched of late, by which cached ones are guessed."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence

STRIDE = 128
"""Tokens between two beginnings that have a name: some blocks of the engine's cache."""


def names_of(prompt: Sequence[int], namespace: str) -> tuple[bytes, ...]:
    """A name for every STRIDE tokens with all before them; equal for equal beginnings in one
    namespace, and for no others."""
    digest = hashlib.blake2b(namespace.encode(), digest_size=16, person=b"headrace-dp")
    digest.update(b"\0")
    tokens = memoryview(prompt if isinstance(prompt, array) else array("i", prompt))
    names = []
    for end in range(STRIDE, len(tokens) + 1, STRIDE):
        digest.update(tokens[end - STRIDE : end])
        names.append(digest.copy().digest())
    return tuple(names)


class Prefixes:
    """What the worker's cache should hold, by what it was sent: the latest beginnings, as many
    as its cache has tokens for. An estimate: charges are corrected when the truth is known."""

    def __init__(self) -> None:
        self._names: OrderedDict[bytes, None] = OrderedDict()
        self._most = 0

    def resize(self, tokens: int) -> None:
        """The cache holds so many tokens now; what it held is gone."""
        self._names.clear()
        self._most = tokens // STRIDE

    def note(self, names: Sequence[bytes]) -> None:
        """A prompt was dispatched. Its end is forgotten before its beginning."""
        for name in reversed(names):
            self._names.pop(name, None)
            self._names[name] = None
        while len(self._names) > self._most:
            self._names.popitem(last=False)

    def forget(self, names: Sequence[bytes]) -> None:
        """A prompt that was dispatched was not computed after all."""
        for name in names:
            self._names.pop(name, None)

    def known(self, names: Sequence[bytes], prompt: int) -> int:
        """Tokens of a prompt that should be cached. Its last is always computed."""
        if not names or names[0] not in self._names:
            return 0
        count = 0
        for name in names:
            if name not in self._names:
                break
            count += STRIDE
        return max(min(count, prompt - 1), 0)
