from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.access.price import Rates
from headrace.access.tenant import Tenant
from headrace.routing.choice import Choice, NoSuchModel, NothingFits, choose
from headrace.routing.menu import Menu
from headrace.routing.needs import Needs, Wishes
from headrace.routing.tier import TIERS, Tier


@dataclass(frozen=True)
class Dish:
    """An offer."""

    name: str
    version: str = "v1"
    tier: Tier | None = None
    current: bool = True
    context_length: int = 1000
    tools: bool = False
    reasoning: bool = False


ANYBODY = Tenant(id=UUID(int=1), name="anybody")
TINY = Dish("tiny", tier="small")
MIDDLE = Dish("middle", tier="medium", tools=True, context_length=4000)
HUGE = Dish("huge", tier="large", tools=True, reasoning=True, context_length=8000)
OLD = replace(MIDDLE, version="v0", current=False)
MENU = Menu([TINY, MIDDLE, HUGE, OLD])
PRICES = {"tiny": 1, "middle": 100, "huge": 1000}


def price_of(model: str) -> Rates:
    rate = PRICES.get(model, 0)
    return Rates(input=rate, cached_input=0, output=2 * rate)


def chosen(
    name: str, tenant: Tenant = ANYBODY, wishes: dict[str, Any] | None = None, **needs: Any
) -> Choice[Dish]:
    asked = Needs(**needs, wishes=Wishes(**wishes or {}))
    return choose(name, tenant, MENU, asked, price_of)


def tenant(**fields: Any) -> Tenant:
    return replace(ANYBODY, **fields)


@pytest.mark.parametrize(
    ("name", "offer", "why"),
    [
        ("tiny", TINY, "tiny -> tiny@v1"),
        ("middle", MIDDLE, "middle -> middle@v1"),
        ("middle@v1", MIDDLE, "middle@v1"),
        ("middle@v0", OLD, "middle@v0"),
        ("small", TINY, "small -> tiny@v1"),
        ("large", HUGE, "large -> huge@v1"),
        ("auto", HUGE, "auto -> huge@v1"),
    ],
)
def test_names_versions_and_tiers(name: str, offer: Dish, why: str) -> None:
    assert chosen(name) == Choice(offer, why)


@pytest.mark.parametrize("name", ["nope", "", "tiny@", "tiny@v9", "@v1", "SMALL", "a/b", "tiny "])
def test_any_other_name_is_nobody(name: str) -> None:
    with pytest.raises(NoSuchModel):
        chosen(name)


def test_an_alias_leads_to_a_model_a_version_a_tier_or_another_alias() -> None:
    one = tenant(aliases={"fast": "quick", "quick": "small", "old": "middle@v0", "best": "auto"})
    assert chosen("fast", one).why == "alias fast -> alias quick -> small -> tiny@v1"
    assert chosen("old", one) == Choice(OLD, "alias old -> middle@v0")
    assert chosen("best", one).offer == HUGE
    with pytest.raises(NoSuchModel):
        chosen("fast")


def test_an_alias_comes_before_a_model_and_a_model_before_a_tier() -> None:
    one = tenant(aliases={"huge": "tiny", "small": "middle"})
    assert chosen("huge", one).offer == TINY
    assert chosen("small", one).offer == MIDDLE
    menu = Menu([replace(TINY, name="large"), HUGE])
    assert choose("large", ANYBODY, menu, Needs(), price_of).offer.tier == "small"


def test_a_circle_of_aliases_is_refused_and_named() -> None:
    one = tenant(aliases={"a": "b", "b": "c", "c": "a", "tiny": "tiny"})
    with pytest.raises(NoSuchModel, match=r"a -> b -> c -> a"):
        chosen("a", one)
    with pytest.raises(NoSuchModel, match=r"tiny -> tiny"):
        chosen("tiny", one)
    assert chosen("tiny@v1", one).offer == TINY


def test_what_a_tenant_may_not_use_does_not_exist_for_it() -> None:
    one = tenant(models=frozenset({"tiny"}), aliases={"best": "huge"})
    for name in ("huge", "huge@v1", "best", "large"):
        with pytest.raises(NoSuchModel) as hidden:
            chosen(name, one)
        with pytest.raises(NoSuchModel) as unknown:
            chosen("nope", one)
        assert str(hidden.value) == str(unknown.value)
    assert chosen("auto", one) == Choice(TINY, "auto -> tiny@v1")


def test_a_pin_decides_what_a_bare_name_and_a_tier_mean_and_a_version_says_otherwise() -> None:
    one = tenant(pins={"middle": "v0"})
    assert chosen("middle", one) == Choice(OLD, "middle (pin) -> middle@v0")
    assert chosen("medium", one).offer == OLD
    assert chosen("middle@v1", one).offer == MIDDLE
    gone = tenant(pins={"middle": "v-gone", "huge": "v1"})
    with pytest.raises(NoSuchModel, match="v-gone"):
        chosen("middle", gone)
    with pytest.raises(NoSuchModel):
        chosen("medium", gone)
    assert chosen("auto", gone).offer == HUGE


def test_demands_cut_the_choice_down_and_the_explanation_says_whom() -> None:
    assert chosen("auto", wishes={"max_input_price": 100}).why == (
        "auto -> middle@v1; without huge (price)"
    )
    assert chosen("auto", wishes={"max_output_price": 2}).offer == TINY
    assert chosen("auto", wishes={"capabilities": frozenset({"reasoning"})}).offer == HUGE
    cheap = {"max_input_price": 100, "capabilities": frozenset({"tools"})}
    assert chosen("auto", wishes=cheap).offer == MIDDLE
    with pytest.raises(NothingFits, match=r"huge \(price\), middle \(price\), tiny \(tools\)"):
        chosen("auto", wishes={"max_input_price": 1, "capabilities": frozenset({"tools"})})
    with pytest.raises(NothingFits, match=r"tiny \(context\)"):
        chosen("tiny", wishes={"context_length": 1001})


def test_what_a_request_makes_use_of_is_preferred_and_not_demanded() -> None:
    smalls = Menu([TINY, replace(TINY, name="clever", tools=True)])

    def choice(**needs: Any) -> str:
        return choose("small", ANYBODY, smalls, Needs(**needs), price_of).offer.name

    assert choice() == "tiny"
    assert choice(tools=True) == "clever"
    assert choice(reasoning=True) == "tiny"
    assert choice(tokens=5000) == "tiny"
    assert chosen("small", tools=True).offer == TINY


def test_an_explanation_is_short_and_fit_for_a_header() -> None:
    name = "\r\nset-cookie: x\u2028é" + "x" * 500
    why = chosen(name, tenant(aliases={name: "tiny"})).why
    assert why.isascii()
    assert why.isprintable()
    assert len(why) < 300


NAMES = st.sampled_from(["a", "b", "c", "d", "a@v1", "a@v0", "b@v1", "auto", *TIERS, ""])
OFFERS = st.lists(
    st.builds(
        Dish,
        name=st.sampled_from("abcd"),
        version=st.sampled_from(["v0", "v1"]),
        tier=st.sampled_from([None, *TIERS]),
        current=st.booleans(),
        context_length=st.integers(1, 3),
        tools=st.booleans(),
        reasoning=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda dish: (dish.name, dish.version),
)
TENANTS = st.builds(
    Tenant,
    id=st.just(UUID(int=1)),
    name=st.just("t"),
    models=st.none() | st.frozensets(st.sampled_from("abcd")),
    aliases=st.dictionaries(NAMES, NAMES, max_size=6),
    pins=st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["v0", "v1", "v2"])),
)
NEEDS = st.builds(
    Needs,
    tools=st.booleans(),
    reasoning=st.booleans(),
    tokens=st.integers(0, 3),
    wishes=st.builds(
        Wishes,
        max_input_price=st.none() | st.integers(0, 3),
        capabilities=st.frozensets(st.sampled_from(["tools", "reasoning"])),
        context_length=st.integers(0, 3),
    ),
)


@given(NAMES, TENANTS, OFFERS, NEEDS, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3)))
def test_every_request_ends_at_an_allowed_model_that_fits_or_at_a_refusal(
    name: str, tenant: Tenant, offers: list[Dish], needs: Needs, prices: dict[str, int]
) -> None:
    def price_of(model: str) -> Rates:
        return Rates(input=prices.get(model, 0), cached_input=0, output=0)

    def outcome() -> Choice[Dish] | str:
        try:
            return choose(name, tenant, Menu(offers), needs, price_of)
        except LookupError as refusal:
            return repr(refusal)

    found = outcome()
    assert found == outcome()
    if isinstance(found, str):
        return
    offer, wishes = found.offer, needs.wishes
    assert offer in offers
    assert tenant.models is None or offer.name in tenant.models
    assert all(getattr(offer, capability) for capability in wishes.capabilities)
    assert offer.context_length >= wishes.context_length
    if wishes.max_input_price is not None:
        assert price_of(offer.name).input <= wishes.max_input_price
    if offer.name in tenant.pins and offer.version != tenant.pins[offer.name]:
        assert f"{offer.name}@{offer.version}" in {name, *tenant.aliases.values()}
    assert found.why.isascii()
    assert found.why.isprintable()
