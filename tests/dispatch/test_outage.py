from __future__ import annotations

from headrace.dispatch.outage import Outage


def test_the_next_worker_takes_as_long_as_the_last() -> None:
    outage = Outage()
    assert outage.left(5) == 0
    outage.note(5, up=False)
    outage.note(9, up=False)
    assert outage.left(9) == 4, "nothing is known: as long again"
    outage.note(25, up=True)
    assert outage.left(26) == 0
    outage.note(100, up=False)
    assert outage.left(105) == 15
    assert outage.left(130) == 10
