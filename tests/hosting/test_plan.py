from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.fleet.errors import DoesNotFit
from headrace.hosting.plan import Claim, plan
from headrace.units import MIB


def claim(
    label: str, least: int, whole: int | None = None, *, elastic: bool = True, always: bool = True
) -> Claim:
    whole = least if whole is None else whole
    return Claim(label, least * MIB, whole * MIB, elastic, always)


def parts(limit: int, *claims: Claim) -> dict[str, int]:
    return {label: part // MIB for label, part in plan(limit * MIB, claims).items()}


def test_what_the_least_leaves_is_shared_evenly_by_those_that_can_take_it() -> None:
    found = parts(1000, claim("a", 100), claim("b", 300), claim("c", 200, elastic=False))
    assert found == {"a": 300, "b": 500, "c": 200}


def test_models_on_demand_are_planned_together_where_each_then_holds_a_whole_sequence() -> None:
    two = [claim("x", 200, 250, always=False), claim("y", 200, 250, always=False)]
    assert parts(900, claim("a", 200), *two) == {"a": 300, "x": 300, "y": 300}
    # Not enough for both: either has the whole place, as large as the larger one needs.
    assert parts(700, claim("a", 200), *two) == {"a": 350, "x": 350, "y": 350}
    fixed = claim("z", 500, elastic=False, always=False)
    assert parts(700, claim("a", 200), *two, fixed) == {"a": 200, "x": 500, "y": 500, "z": 500}


def test_what_does_not_fit_is_named_part_by_part() -> None:
    with pytest.raises(DoesNotFit) as error:
        plan(699 * MIB, [claim("a", 200), claim("x", 500, always=False), claim("y", 9)])
    assert str(error.value) == (
        "memory is 699 MiB, but the models need 709 MiB at least: a 200 MiB, y 9 MiB,"
        " x 500 MiB on demand"
    )


CLAIMS = st.lists(
    st.builds(
        lambda label, least, more, elastic, always: Claim(
            label, least, least + (more if elastic else 0), elastic, always
        ),
        st.integers(0, 10**6).map(str),
        st.integers(1, 1000),
        st.integers(0, 500),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda claim: claim.label,
)


@given(st.integers(1, 5000), CLAIMS)
def test_parts_hold_their_model_and_never_exceed_the_limit(limit: int, claims: list[Claim]) -> None:
    always = [claim for claim in claims if claim.always]
    demand = [claim for claim in claims if not claim.always]
    least = sum(claim.least for claim in always) + max((c.least for c in demand), default=0)
    try:
        found = plan(limit, claims)
    except DoesNotFit:
        assert least > limit
        return
    assert least <= limit
    assert set(found) == {claim.label for claim in claims}
    for claim in claims:
        assert found[claim.label] >= claim.least
        assert claim.elastic or found[claim.label] == claim.least
    kept = sum(found[claim.label] for claim in always)
    assert kept <= limit
    for claim in demand:  # each alone beside those that stay
        assert kept + found[claim.label] <= limit
