"""Names of a sequence's KV blocks, by which equal beginnings find each other."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from headrace.ops.backend import BLOCK_SIZE

_DIGEST = 32
_TOKENS = struct.Struct(f"<{BLOCK_SIZE}i")
_PUBLISHED = bytes(_DIGEST)


class HashChain:
    """The key of each full block of a growing list of tokens.

    A key is BLAKE2b of the key before it, the namespace and the block's tokens, so two keys are
    equal only if everything up to the block's end is, the namespace included: to find another
    namespace's block, or to make two prompts meet, is to break the hash. Blocks that lie wholly
    within the first `published` tokens have a key without a namespace. Keys are computed when
    they are first asked for; fields have fixed sizes, so none can pass for another.
    """

    __slots__ = ("_keys", "_namespace", "_published", "_tokens")

    def __init__(self, tokens: Sequence[int], namespace: str, published: int = 0) -> None:
        """tokens: the sequence's own, which may grow but never change."""
        self._tokens = tokens
        self._namespace = _digest(namespace.encode())
        self._published = published
        self._keys: list[bytes] = []

    def __getitem__(self, index: int) -> bytes:
        """Key of the block that holds tokens index * BLOCK_SIZE and on; they must all exist."""
        while len(self._keys) <= index:
            self._keys.append(self._next())
        return self._keys[index]

    def _next(self) -> bytes:
        first = len(self._keys) * BLOCK_SIZE
        last = first + BLOCK_SIZE
        parent = self._keys[-1] if self._keys else _PUBLISHED
        namespace = _PUBLISHED if last <= self._published else self._namespace
        return _digest(parent + namespace + _TOKENS.pack(*self._tokens[first:last]))


def _digest(message: bytes) -> bytes:
    return hashlib.blake2b(message, digest_size=_DIGEST, person=b"headrace-kv").digest()
