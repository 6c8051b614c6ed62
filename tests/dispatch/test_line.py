from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dispatch.entry import Entry
from headrace.dispatch.line import Line

from .play import entry

moves = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 5)), st.tuples(st.just("leave"), st.integers(0, 30))
)


@given(st.lists(moves, max_size=60), st.integers(0, 70))
def test_the_earliest_deadline_is_first_unless_one_is_over_age(
    moves: list[tuple[str, int]], age: int
) -> None:
    line, there, made = Line(), list[Entry](), list[Entry]()
    for now, (move, number) in enumerate(moves):
        if move == "add":
            made.append(entry(arrived=float(now), deadline=float(number), prompt=now + 1))
            line.add(made[-1])
            there.append(made[-1])
        elif number < len(made) and made[number] in there:
            line.remove(made[number])
            there.remove(made[number])
        assert len(line) == len(there)
        assert line.cost == sum(e.cost for e in there)
        before = sum(e.cost for e in there if e.deadline <= number)
        assert line.cost_before(number) == before
        if there:
            earliest = min(there, key=lambda e: (e.deadline, e.arrived))
            over_age = now - there[0].arrived >= age
            assert line.head(now, age) is (there[0] if over_age else earliest)
            assert line.last is max(there, key=lambda e: (e.deadline, e.arrived))


def test_a_guess_that_changes_meanwhile_leaves_no_cost_behind() -> None:
    line, waiting = Line(), entry()
    line.add(waiting)
    waiting.cached = 9
    line.remove(waiting)
    assert (len(line), line.cost) == (0, 0)


def test_nobody_leaves_twice() -> None:
    line, waiting = Line(), entry()
    line.add(waiting)
    line.remove(waiting)
    with pytest.raises(KeyError):
        line.remove(waiting)
