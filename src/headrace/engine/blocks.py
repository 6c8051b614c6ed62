"""Who holds which block of the KV cache.

A block is in one of three states: free, cached (kept for reuse by a later prompt; none yet)
or owned by one block table. `BlockPool.check` proves that every block is in exactly one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.ops.backend import BLOCK_SIZE


def blocks_for(tokens: int) -> int:
    """How many blocks hold the keys and values of that many tokens."""
    return -(-tokens // BLOCK_SIZE)


class BlockPool:
    """All KV blocks of one executable, numbered from 0."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))
        self._cached: list[int] = []
        self._tables: set[BlockTable] = set()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def cached(self) -> int:
        return len(self._cached)

    @property
    def owned(self) -> int:
        return sum(len(table) for table in self._tables)

    def check(self) -> None:
        """Raises AssertionError unless free + cached + owned = total, no block twice."""
        owned = [block for table in self._tables for block in table.blocks.tolist()]
        if sorted(self._free + self._cached + owned) != list(range(self.total)):
            raise AssertionError(
                f"{self.free} free + {self.cached} cached + {len(owned)} owned blocks are not"
                f" the {self.total} of the pool, each once"
            )

    def _take(self, table: BlockTable, count: int) -> list[int]:
        self._tables.add(table)
        taken = self._free[len(self._free) - count :]
        del self._free[len(self._free) - count :]
        return taken

    def _give_back(self, table: BlockTable) -> None:
        self._tables.discard(table)
        self._free.extend(table.blocks[::-1].tolist())


class BlockTable:
    """The blocks of one sequence, in the order of its positions: their only owner.

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
        count = blocks_for(tokens) - self._size
        if count <= 0:
            return True
        if count > self._pool.free:
            return False
        self._entries[self._size : self._size + count] = self._pool._take(self, count)
        self._size += count
        return True

    def release(self) -> None:
        """Give all blocks back; the table is then empty and may grow again."""
        self._pool._give_back(self)
        self._size = 0
