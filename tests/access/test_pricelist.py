"""Prices come from memory until something changed."""

from __future__ import annotations

import time

from headrace.access.price import Price, Rates
from headrace.access.pricelist import PriceList
from headrace.access.prices import set_price
from headrace.access.revision import Change
from headrace.store.database import Database


def rates(input: int) -> Rates:
    return Rates(input=input, cached_input=1, output=3)


def set(database: Database, input: int, *, later: float = 0.0) -> Price:
    moment = int((time.time() + later) * 1000) if later else None
    with database.transaction(write=True) as connection:
        return set_price(connection, "m", rates(input), actor="test", valid_from=moment)


async def test_a_price_is_remembered_until_a_price_changes(database: Database) -> None:
    prices = PriceList(database)
    first = set(database, 5)
    assert await prices.price("m") == first
    second = set(database, 6)
    assert await prices.price("m") == first
    prices.hear([Change("tenant", "acme")])
    assert await prices.price("m") == first
    prices.hear([Change("price", "m")])
    assert await prices.price("m") == second
    database.close()
    assert await prices.price("m") == second


async def test_a_model_may_have_none(database: Database) -> None:
    assert await PriceList(database).price("free") is None


async def test_a_price_set_for_later_is_valid_later(database: Database) -> None:
    moment = time.time()
    now, later = set(database, 5), set(database, 6, later=60)
    prices = PriceList(database, now=lambda: moment)
    moment += 1
    assert await prices.price("m") == now
    moment += 60
    assert await prices.price("m") == later


def test_the_highest_cost_is_of_whatever_may_happen() -> None:
    cheap, dear = rates(2), Rates(input=4, cached_input=9, output=1)
    price = Price(
        id=None,  # type: ignore[arg-type]
        model="m",
        version=1,
        valid_from=0,
        rates=cheap,
        long_from=10,
        long_rates=dear,
    )
    assert price.highest_cost(prompt=9, completion=5) == 9 * 2 + 15
    assert price.highest_cost(prompt=10, completion=5) == 10 * 9 + 5
    assert price.highest_cost(prompt=10, completion=500) == 10 * 2 + 1500
