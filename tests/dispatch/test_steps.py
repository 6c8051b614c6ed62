from __future__ import annotations

import pytest

from headrace.dispatch.entry import Entry
from headrace.dispatch.steps import Steps

from .play import entry


def started(steps: Steps, *lengths: int) -> list[Entry]:
    made = [entry(expected=length) for length in lengths]
    for each in made:
        steps.take(each)
        steps.start(each, 0.0)
        each.started = True
    return made


def test_places_that_were_filled_together_become_free_one_by_one_as_answers_end() -> None:
    steps = Steps()
    entries = started(steps, 10, 20, 40)
    assert steps.until_free(1) == 0, "nothing is known yet"
    for step in range(1, 6):
        for _ in entries:
            steps.note(1, step / 10)
    assert steps.until_free(1) == pytest.approx(0.5)
    assert steps.until_free(2) == pytest.approx(1.5)
    assert steps.until_free(3) == steps.until_free(9) == pytest.approx(3.5)
    steps.leave(entries[0])
    assert steps.until_free(1) == pytest.approx(1.5)


def test_one_that_is_longer_than_expected_may_end_any_time() -> None:
    steps = Steps()
    started(steps, 3)
    for step in range(1, 9):
        steps.note(1, step / 10)
    assert steps.until_free(1) == 0


def test_nothing_is_left_of_those_that_left() -> None:
    steps = Steps()
    entries = started(steps, 5, 5, 7)
    waiting = entry(expected=9)
    steps.take(waiting)
    for each in (*entries, waiting):
        steps.leave(each)
    assert (steps._marks, steps._started) == ([], 0)
    assert steps.until_free(1) == 0
