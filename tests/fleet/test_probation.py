"""Who is sent to the next worker after one has died, and who ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.fleet.probation import CLEARING_OUTPUTS, GROUPS, LIVES, Probation


def play(
    bystanders: int, poisons: dict[str, int], *, length: int = 40, most_deaths: int = 200
) -> tuple[set[str], int]:
    """Requests that are answered step by step, until all have ended. poisons: request -> it kills
    its worker when it is to get this token. Who ended by a death, and how many deaths there were.
    """
    probation = Probation()
    said = dict.fromkeys([f"r{n}" for n in range(bystanders)] + [*poisons], 0)
    ended: set[str] = set()
    aboard: list[str] = []
    deaths = 0
    for id in said:
        probation.open(id)
    while said:
        aboard += probation.due()
        assert aboard, "nobody is in the worker, and nobody is due"
        if any(said[id] == poisons.get(id) for id in aboard):
            deaths += 1
            assert deaths <= most_deaths
            for id in probation.lose():
                probation.end(id)
                ended.add(id)
                del said[id]
            aboard = []
            continue
        for id in list(aboard):
            said[id] += 1
            probation.note(id)
            if said[id] == length:
                probation.end(id)
                aboard.remove(id)
                del said[id]
    return ended, deaths


@pytest.mark.parametrize("at", [0, 1, 2, 5, 30])
def test_of_one_poison_and_four_others_the_poison_ends_alone(at: int) -> None:
    ended, deaths = play(4, {"poison": at})
    assert ended == {"poison"}
    assert deaths <= 3


def test_one_that_kills_before_its_first_answer_is_tried_first() -> None:
    probation = Probation()
    for id in ("a", "b", "poison"):
        probation.open(id)
    probation.due()
    for id in "ab":
        probation.note(id)
    assert probation.lose() == []
    assert probation.due() == ["poison"]
    assert probation.lose() == ["poison"]


@pytest.mark.parametrize("at", [0, 7])
def test_among_sixty_four_it_takes_four_workers(at: int) -> None:
    ended, deaths = play(63, {"poison": at})
    assert ended == {"poison"}
    assert deaths <= 4


def test_several_poisons_end_alone() -> None:
    poisons = {"p0": 0, "p1": 0, "p2": 4, "p3": 20}
    ended, deaths = play(20, poisons)
    assert ended == set(poisons)
    assert deaths <= 6 * len(poisons)


@given(
    st.integers(0, 70),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 39), max_size=4),
)
def test_whatever_kills_ends_alone_and_deaths_are_bounded(
    bystanders: int, poisons: dict[str, int]
) -> None:
    ended, deaths = play(bystanders, poisons)
    assert ended == set(poisons)
    assert deaths <= 6 * len(poisons)


def test_deaths_that_nobody_explains_end_everyone_in_the_end() -> None:
    probation = Probation()
    for id in "ab":
        probation.open(id)
    for death in range(1, LIVES + 1):
        sent: list[str] = []
        while due := probation.due():
            sent += due
            for id in due:
                for _ in range(CLEARING_OUTPUTS):
                    probation.note(id)
        assert sorted(sent) == ["a", "b"]
        lost = probation.lose()
        assert sorted(lost) == (["a", "b"] if death == LIVES else [])


def test_suspects_go_in_groups_those_first_that_had_least_answers() -> None:
    probation = Probation()
    ids = [f"{n:02}" for n in range(2 * GROUPS)]
    for id in ids:
        probation.open(id)
    assert probation.due() == ids
    for id in ids[:-2]:
        probation.note(id)
    probation.lose()
    assert probation.due() == ids[-2:]
    assert probation.due() == []


def _clear(probation: Probation, id: str) -> None:
    for _ in range(CLEARING_OUTPUTS):
        probation.note(id)


@pytest.mark.parametrize("leave", [_clear, Probation.end])
def test_new_requests_wait_until_no_suspect_is_left(
    leave: Callable[[Probation, str], None],
) -> None:
    probation = Probation()
    for id in "ab":
        probation.open(id)
    probation.due()
    probation.lose()
    assert probation.due() == ["a"]
    probation.open("new")
    assert probation.due() == []
    leave(probation, "a")
    assert probation.due() == ["b"]
    assert "new" not in probation
    leave(probation, "b")
    assert probation.due() == ["new"]
    assert "new" in probation


def test_one_that_leaves_while_it_waits_is_not_sent() -> None:
    probation = Probation()
    for id in "abc":
        probation.open(id)
    probation.due()
    probation.lose()
    probation.end("b")
    sent = probation.due()
    _clear(probation, "a")
    assert sent + probation.due() == ["a", "c"]
