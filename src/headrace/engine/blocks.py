"""Who holds which block of the KV cache, and which blocks are worth keeping.

A block is free, owned by one or more block tables, or cached: owned by none, but kept under its
key for a later prompt with the same beginning. A full block that was computed is published
under its key (`engine.chain`); from then on every table may share it, and nobody writes it.

When a free block is wanted and there is none, the cached block that was let go of first is
evicted; an owned one never is. Tables let go of their last block first, and whoever holds a
block holds all blocks before it, so a block is always evicted before the one it follows.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

import numpy as np
from numpy.typing import NDArray

from headrace.ops.backend import BLOCK_SIZE


def blocks_for(tokens: int) -> int:
    """How many blocks hold the keys and values of that many tokens."""
    return -(-tokens // BLOCK_SIZE)


class BlockPool:
    """All KV blocks of one executable, numbered from 0.

    caching: whether blocks are kept for later prompts. evictions: how many were given up.
    """

    def __init__(self, total: int, *, caching: bool = True) -> None:
        self.total = total
        self.caching = caching
        self.evictions = 0
        self._free = list(range(total - 1, -1, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._owners = [0] * total
        self._keys: list[bytes | None] = [None] * total
        self._published: dict[bytes, int] = {}
        self._tables: set[BlockTable] = set()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def cached(self) -> int:
        return len(self._cached)

    @property
    def owned(self) -> int:
        return self.total - self.free - self.cached

    @property
    def available(self) -> int:
        """Blocks that can be had: the free ones and the cached."""
        return len(self._free) + len(self._cached)

    def find(self, key: bytes) -> int | None:
        """The block that was published under this key, if it is still there."""
        return self._published.get(key)

    def is_cached(self, block: int) -> bool:
        return block in self._cached

    def check(self) -> None:
        """Raises AssertionError unless each block is free, cached or owned, and just one of
        these, as often owned as it is in tables, and every key leads to its own block."""
        owners = Counter(block for table in self._tables for block in table.blocks.tolist())
        if sorted([*self._free, *self._cached, *owners]) != list(range(self.total)):
            raise AssertionError(
                f"{self.free} free + {self.cached} cached + {len(owners)} owned blocks are not"
                f" the {self.total} of the pool, each once"
            )
        if self._owners != [owners[block] for block in range(self.total)]:
            raise AssertionError("a block's owners are not counted right")
        published = {key: block for block, key in enumerate(self._keys) if key is not None}
        if published != self._published or not self._cached.keys() <= set(published.values()):
            raise AssertionError("a published block is not found under its key")
        if any(self._keys[block] is not None for block in self._free):
            raise AssertionError("a free block is published")

    # For block tables only.

    def _take(self, count: int) -> list[int]:
        """So many blocks with one owner each; `available` has them."""
        taken = [self._free.pop() if self._free else self._evict() for _ in range(count)]
        for block in taken:
            self._owners[block] = 1
        return taken

    def _evict(self) -> int:
        self.evictions += 1
        block, _ = self._cached.popitem(last=False)
        self._forget(block)
        return block

    def _share(self, block: int) -> None:
        self._cached.pop(block, None)
        self._owners[block] += 1

    def _drop(self, block: int) -> None:
        self._owners[block] -= 1
        if self._owners[block]:
            return
        if self._keys[block] is None:
            self._free.append(block)
        else:
            self._cached[block] = None

    def _publish(self, block: int, key: bytes) -> int:
        """The block to use from now on for this key: an earlier one with the same content, or
        this one."""
        found = self._published.setdefault(key, block)
        if found == block:
            self._keys[block] = key
        return found

    def _forget(self, block: int) -> None:
        key, self._keys[block] = self._keys[block], None
        if key is not None:
            del self._published[key]


class BlockTable:
    """The blocks of one sequence, in the order of its positions.

    It grows at the end and is released as a whole, so no block can be given back twice.
    """

    __slots__ = ("_entries", "_pool", "_size")

    def __init__(self, pool: BlockPool, max_tokens: int) -> None:
        """max_tokens: most tokens it will ever be asked to hold."""
        self._pool = pool
        self._entries = np.zeros(blocks_for(max_tokens), np.int32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def blocks(self) -> NDArray[np.int32]:
        """int32 [len]: a view, valid until the table changes."""
        return self._entries[: self._size]

    def missing(self, tokens: int) -> int:
        """How many blocks more it needs to hold that many tokens."""
        return max(0, blocks_for(tokens) - self._size)

    def grow(self, tokens: int) -> bool:
        """Take blocks until `tokens` tokens fit. False, and nothing taken, if the pool is short."""
        count = self.missing(tokens)
        if count > self._pool.available:
            return False
        if count:
            self._extend(self._pool._take(count))
        return True

    def shrink(self, tokens: int) -> None:
        """Give back the blocks beyond what that many tokens need."""
        while self._size > blocks_for(tokens):
            self._size -= 1
            self._pool._drop(int(self._entries[self._size]))

    def share(self, index: int, block: int) -> None:
        """Use a published block at that place: instead of its own there, or as its next."""
        self._pool._share(block)
        if index == self._size:
            self._extend([block])
        else:
            self._pool._drop(int(self._entries[index]))
            self._entries[index] = block

    def publish(self, index: int, key: bytes) -> None:
        """The block there is full and computed: from now on it is found under its key. If one
        is already, that one takes its place, for their contents are equal bit for bit."""
        block = int(self._entries[index])
        found = self._pool._publish(block, key)
        if found != block:
            self.share(index, found)

    def forget(self) -> None:
        """Nobody shall find these blocks again; who shares them keeps them."""
        for block in self.blocks.tolist():
            self._pool._forget(block)

    def release(self) -> None:
        """Give all blocks back; the table is then empty and may grow again."""
        self._pool._tables.discard(self)
        for block in self.blocks[::-1].tolist():
            self._pool._drop(block)
        self._size = 0

    def _extend(self, blocks: list[int]) -> None:
        self._pool._tables.add(self)
        self._entries[self._size : self._size + len(blocks)] = blocks
        self._size += len(blocks)
