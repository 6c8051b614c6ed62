from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from headrace.observe.tally import Spread, Tally

BOUNDS = (0.1, 1.0, 10.0)


def test_a_tally_counts_by_labels() -> None:
    tally = Tally("x_things", "Things.", ["kind"])
    tally.add(("a",))
    tally.add(("b",), 2)
    tally.add(("a",), 3)
    found = {s.labels["kind"]: s.value for s in tally.family().samples}
    assert found == {"a": 4, "b": 2}
    assert {s.name for s in tally.family().samples} == {"x_things_total"}


@given(st.lists(st.floats(0, 20) | st.sampled_from(BOUNDS), min_size=1))
def test_a_spread_counts_what_is_not_above_each_bound(values: list[float]) -> None:
    spread = Spread("x_seconds", "Seconds.", ["kind"], BOUNDS)
    for value in values:
        spread.observe(("a",), value)
    samples = {(s.name, s.labels.get("le")): s.value for s in spread.family().samples}
    for bound, name in zip((*BOUNDS, math.inf), ("0.1", "1.0", "10.0", "+Inf"), strict=True):
        assert samples["x_seconds_bucket", name] == sum(value <= bound for value in values)
    assert samples["x_seconds_count", None] == len(values)
    assert math.isclose(samples["x_seconds_sum", None], sum(values))
