from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.chain import HashChain
from headrace.ops.backend import BLOCK_SIZE


def keys(tokens: list[int], namespace: str = "a", published: int = 0) -> list[bytes]:
    chain = HashChain(tokens, namespace, published)
    return [chain[i] for i in range(len(tokens) // BLOCK_SIZE)]


def test_equal_beginnings_have_equal_keys_until_they_part() -> None:
    tokens = list(range(4 * BLOCK_SIZE))
    other = tokens.copy()
    other[2 * BLOCK_SIZE + 5] += 1
    assert keys(tokens)[:2] == keys(other)[:2]
    assert not set(keys(tokens)[2:]) & set(keys(other)[2:])


def test_equal_blocks_after_different_beginnings_have_different_keys() -> None:
    repeated = [7] * 3 * BLOCK_SIZE
    assert len(set(keys(repeated))) == 3
    assert keys([1, *repeated])[1:] != keys([2, *repeated])[1:]


def test_a_namespace_shares_no_key_with_another() -> None:
    tokens = list(range(3 * BLOCK_SIZE))
    assert not set(keys(tokens, "a")) & set(keys(tokens, "b"))
    assert not set(keys(tokens, "a")) & set(keys(tokens, ""))


def test_only_whole_published_blocks_are_shared_by_namespaces() -> None:
    tokens = list(range(3 * BLOCK_SIZE))
    ours = keys(tokens, "a", published=2 * BLOCK_SIZE - 1)
    theirs = keys(tokens, "b", published=2 * BLOCK_SIZE - 1)
    assert ours[0] == theirs[0] != keys(tokens, "a")[0]
    assert not set(ours[1:]) & set(theirs[1:])


def test_it_follows_its_list() -> None:
    tokens = list(range(BLOCK_SIZE))
    chain = HashChain(tokens, "a")
    first = chain[0]
    tokens += range(BLOCK_SIZE)
    assert [first, chain[1]] == keys(tokens)


@given(
    st.lists(st.sampled_from([0, 1]), min_size=BLOCK_SIZE, max_size=3 * BLOCK_SIZE),
    st.lists(st.sampled_from([0, 1]), min_size=BLOCK_SIZE, max_size=3 * BLOCK_SIZE),
    st.sampled_from("ab"),
    st.sampled_from("ab"),
)
def test_keys_are_equal_exactly_where_everything_before_is(
    one: list[int], other: list[int], ours: str, theirs: str
) -> None:
    for i, (a, b) in enumerate(zip(keys(one, ours), keys(other, theirs), strict=False)):
        end = (i + 1) * BLOCK_SIZE
        assert (a == b) == (ours == theirs and one[:end] == other[:end])
