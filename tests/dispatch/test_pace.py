from __future__ import annotations

import pytest

from headrace.dispatch.pace import INFLOW_MEMORY, LEAST, LONGEST_GAP, MEMORY, Flow, Rate


def test_a_steady_rate_is_found() -> None:
    rate = Rate()
    for tick in range(300):
        rate.note(5, tick / 10, busy=True)
    assert rate.value == pytest.approx(50)


def test_idle_time_does_not_count() -> None:
    rate = Rate()
    for start in range(0, 1000, 100):
        rate.note(99, start, busy=True)  # the first of a busy time: what came before is unknown
        rate.note(10, start + 1, busy=False)
    assert rate.value == pytest.approx(10)


def test_nothing_is_believed_too_soon() -> None:
    rate = Rate()
    assert rate.value is None
    rate.note(1, 0, busy=True)
    rate.note(1, LEAST * 0.9, busy=True)
    assert rate.value is None
    rate.note(1, LEAST * 1.1, busy=True)
    assert rate.value is not None


def test_the_past_is_forgotten() -> None:
    rate = Rate()
    for tick in range(100):
        rate.note(1, float(tick), busy=True)
    for tick in range(100, 100 + int(5 * MEMORY)):
        rate.note(3, float(tick), busy=True)
    assert rate.value == pytest.approx(3, rel=0.05)


def test_what_comes_in_is_known_and_fades() -> None:
    inflow = Flow()
    assert inflow.value(5) == 0
    for tick in range(500):
        inflow.note(2, tick / 5)
    assert inflow.value(100) == pytest.approx(10, rel=0.1)
    assert inflow.value(100 + INFLOW_MEMORY) == pytest.approx(10 / 2.72, rel=0.1)


def test_a_machine_that_slept_is_not_slow() -> None:
    rate = Rate()
    for tick in range(100):
        rate.note(5, tick / 10, busy=True)
    rate.note(5 * 10 * LONGEST_GAP, 3600, busy=True)
    assert rate.value == pytest.approx(50, rel=0.05)
