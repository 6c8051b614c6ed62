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


# Blocks that are kept


def published(pool: BlockPool, *names: str) -> BlockTable:
    """A table of full blocks, each published under its name."""
    table = BlockTable(pool, 8 * BLOCK_SIZE)
    assert table.grow(len(names) * BLOCK_SIZE)
    for i, name in enumerate(names):
        table.publish(i, name.encode())
    pool.check()
    return table


def found(pool: BlockPool, names: str) -> str:
    """Those of the names under which a block is found."""
    return "".join(name for name in names if pool.find(name.encode()) is not None)


def test_a_published_block_stays_when_its_owner_goes_and_comes_to_the_next() -> None:
    pool = BlockPool(3)
    table = published(pool, "a", "b")
    first = table.blocks.tolist()
    table.release()
    assert (pool.free, pool.cached, pool.owned, pool.available) == (1, 2, 0, 3)
    later = BlockTable(pool, 3 * BLOCK_SIZE)
    for i, name in enumerate("ab"):
        block = pool.find(name.encode())
        assert block is not None
        later.share(i, block)
    assert later.blocks.tolist() == first
    assert (pool.free, pool.cached, pool.owned) == (1, 0, 2)
    pool.check()


def test_the_least_recently_used_goes_first_and_of_a_chain_its_end() -> None:
    pool = BlockPool(5)
    published(pool, "a", "b", "c").release()
    published(pool, "x", "y").release()
    one = BlockTable(pool, 8 * BLOCK_SIZE)
    one.share(0, pool.find(b"a") or 0)
    one.release()  # used again, and so it outlives x and y
    order = ""
    table = BlockTable(pool, 8 * BLOCK_SIZE)
    for size in range(1, 6):
        before = found(pool, "abcxy")
        assert table.grow(size * BLOCK_SIZE)
        order += "".join(set(before) - set(found(pool, "abcxy")))
    assert order == "cbyxa"
    assert pool.evictions == 5
    assert not table.grow(6 * BLOCK_SIZE)


def test_an_owned_block_is_never_evicted() -> None:
    pool = BlockPool(4)
    live = published(pool, "a", "b")
    published(pool, "c").release()
    table = BlockTable(pool, 8 * BLOCK_SIZE)
    assert not table.grow(3 * BLOCK_SIZE)
    assert table.grow(2 * BLOCK_SIZE)
    assert found(pool, "abc") == "ab"
    assert not set(live.blocks.tolist()) & set(table.blocks.tolist())


def test_a_free_block_is_taken_before_a_cached_one() -> None:
    pool = BlockPool(2)
    published(pool, "a").release()
    assert BlockTable(pool, BLOCK_SIZE).grow(1)
    assert (found(pool, "a"), pool.evictions) == ("a", 0)


def test_a_block_is_free_for_others_when_its_last_owner_has_gone() -> None:
    pool = BlockPool(2)
    one, other = published(pool, "a"), BlockTable(pool, BLOCK_SIZE)
    other.share(0, int(one.blocks[0]))
    one.release()
    assert (pool.cached, pool.owned) == (0, 1)
    other.release()
    assert (pool.cached, pool.owned) == (1, 0)


def test_of_two_equal_blocks_one_is_kept() -> None:
    pool = BlockPool(2)
    one, other = published(pool, "a"), published(pool, "a")
    assert one.blocks.tolist() == other.blocks.tolist()
    assert (pool.free, pool.owned) == (1, 1)


def test_sharing_in_place_of_an_own_block_frees_it() -> None:
    pool = BlockPool(4)
    one, other = published(pool, "a"), BlockTable(pool, 2 * BLOCK_SIZE)
    other.grow(2 * BLOCK_SIZE)
    other.share(0, int(one.blocks[0]))
    assert len(other) == 2
    assert (pool.free, pool.owned) == (2, 2)
    pool.check()


def test_what_is_forgotten_is_never_found_and_is_free_after_its_owners() -> None:
    pool = BlockPool(3)
    one, other = published(pool, "a", "b"), BlockTable(pool, BLOCK_SIZE)
    other.share(0, int(one.blocks[0]))
    one.forget()
    one.release()
    assert (found(pool, "ab"), pool.free, pool.cached) == ("", 2, 0)
    other.release()
    pool.check()
    assert pool.free == 3


def test_check_sees_miscounted_owners_and_keys_that_lead_elsewhere() -> None:
    pool = BlockPool(3)
    table = published(pool, "a")
    pool._owners[int(table.blocks[0])] += 1
    with pytest.raises(AssertionError, match="owners"):
        pool.check()
    pool._owners[int(table.blocks[0])] -= 1
    pool._published[b"b"] = 2
    with pytest.raises(AssertionError, match="key"):
        pool.check()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.sampled_from("abc"))))
def test_free_cached_and_owned_are_the_total(moves: list[tuple[int, int, str]]) -> None:
    """Tables of chains `a/0, a/1, …` that share what is published and publish what they have."""
    pool = BlockPool(8)
    tables = [BlockTable(pool, 6 * BLOCK_SIZE) for _ in range(4)]
    for which, blocks, chain in moves:
        table = tables[which]
        table.release()
        keys = [f"{chain}/{i}".encode() for i in range(blocks)]
        for i, key in enumerate(keys):
            block = pool.find(key)
            if block is None:
                break
            table.share(i, block)
        if table.grow(blocks * BLOCK_SIZE):
            for i, key in enumerate(keys):
                table.publish(i, key)
        pool.check()
        assert pool.free + pool.cached + pool.owned == pool.total
        for name in "abc":  # no block without the ones before it
            there = [pool.find(f"{name}/{i}".encode()) is not None for i in range(6)]
            assert there == sorted(there, reverse=True)
