from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.blocks import BlockPool, BlockTable, blocks_for
from headrace.ops.backend import BLOCK_SIZE


@pytest.mark.parametrize(
    ("tokens", "blocks"), [(0, 0), (1, 1), (BLOCK_SIZE, 1), (BLOCK_SIZE + 1, 2)]
)
def test_blocks_for(tokens: int, blocks: int) -> None:
    assert blocks_for(tokens) == blocks


def test_a_table_grows_only_as_far_as_needed_and_keeps_its_beginning() -> None:
    table = BlockTable(BlockPool(4), 4 * BLOCK_SIZE)
    assert table.grow(1)
    first = table.blocks.tolist()
    assert table.grow(BLOCK_SIZE)
    assert table.blocks.tolist() == first
    assert table.grow(3 * BLOCK_SIZE)
    assert table.blocks.tolist()[:1] == first
    assert len(set(table.blocks.tolist())) == 3


def test_a_short_pool_gives_nothing_rather_than_a_part() -> None:
    pool = BlockPool(2)
    table = BlockTable(pool, 3 * BLOCK_SIZE)
    assert not table.grow(3 * BLOCK_SIZE)
    assert (len(table), pool.free) == (0, 2)


def test_a_table_gives_its_blocks_back_once() -> None:
    pool = BlockPool(2)
    table = BlockTable(pool, BLOCK_SIZE)
    table.grow(1)
    table.release()
    table.release()
    pool.check()
    assert pool.free == 2


def test_check_sees_a_lost_block_and_a_block_held_twice() -> None:
    pool = BlockPool(3)
    table = BlockTable(pool, BLOCK_SIZE)
    table.grow(1)
    pool._free.append(int(table.blocks[0]))
    with pytest.raises(AssertionError):
        pool.check()
    del pool._free[-2:]
    with pytest.raises(AssertionError):
        pool.check()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6 * BLOCK_SIZE))))
def test_free_cached_and_owned_are_the_total(moves: list[tuple[int, int]]) -> None:
    pool = BlockPool(8)
    tables = [BlockTable(pool, 6 * BLOCK_SIZE) for _ in range(4)]
    for which, tokens in moves:
        if tokens == 0:
            tables[which].release()
        else:
            tables[which].grow(tokens)
        pool.check()
        assert pool.free + pool.cached + pool.owned == pool.total
