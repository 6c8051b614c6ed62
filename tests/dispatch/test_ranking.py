from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.dispatch.ranking import Ranking

changes = st.lists(st.tuples(st.integers(0, 8), st.none() | st.floats(-5, 5)), max_size=60)


@given(changes)
def test_the_order_is_that_of_the_latest_numbers(changes: list[tuple[int, float | None]]) -> None:
    ranking, numbers = Ranking[int](), dict[int, float]()
    assert ranking.first is None
    for thing, number in changes:
        if number is None:
            ranking.discard(thing)
            numbers.pop(thing, None)
        else:
            ranking.put(thing, number)
            numbers[thing] = number
        order = ranking.smallest(100)
        assert set(order) == set(numbers)
        assert [numbers[thing] for thing in order] == sorted(numbers.values())
        assert ranking.first == (order[0] if order else None)
        assert ranking.smallest(2) == order[:2]
        assert len(ranking) == len(order)


def test_equal_numbers_stay_in_the_order_they_came() -> None:
    ranking = Ranking[str]()
    for thing in "cab":
        ranking.put(thing, 1)
    ranking.put("c", 1)
    assert ranking.smallest(3) == ["c", "a", "b"]
