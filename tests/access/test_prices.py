"""Prices: exact to the nano-unit, and never changed."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.access.errors import AccessError
from headrace.access.price import (
    HIGHEST_RATE,
    Price,
    Rates,
    format_money,
    format_rate,
    parse_money,
    parse_rate,
)
from headrace.access.prices import find_price, list_prices, set_price
from headrace.store.database import Database
from headrace.store.ids import uuid7

rates = st.integers(0, HIGHEST_RATE)
tokens = st.integers(0, 1 << 24)
CHEAP, DEAR = Rates(input=1, cached_input=0, output=2), Rates(input=7, cached_input=3, output=9)


def put(database: Database, model: str = "a", some: Rates = CHEAP, **options: object) -> Price:
    with database.transaction(write=True) as connection:
        return set_price(connection, model, some, actor="test", **options)  # type: ignore[arg-type]


def found(database: Database, moment: int, model: str = "a") -> Price | None:
    with database.transaction() as connection:
        return find_price(connection, model, moment)


def test_every_change_is_another_version(database: Database) -> None:
    first = put(database)
    second = put(database, some=DEAR, long_from=100, long_rates=CHEAP)
    other = put(database, "b")
    assert (first.version, second.version, other.version) == (1, 2, 1)
    with database.transaction() as connection:
        assert list_prices(connection) == [first, second, other]
        assert list_prices(connection, "b") == [other]


def test_a_price_counts_from_its_moment_on(database: Database) -> None:
    now = time.time_ns() // 1_000_000
    later = put(database, some=DEAR, valid_from=now + 60_000)
    first = put(database)
    again = put(database, valid_from=now + 60_000)
    assert found(database, first.valid_from - 1) is None
    assert found(database, now + 59_999) == first
    assert found(database, now + 60_000) == again != later
    assert found(database, now, "b") is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"valid_from": 1}, "in the past"),
        ({"long_from": 5}, "go together"),
        ({"long_rates": DEAR}, "go together"),
        ({"long_from": 0, "long_rates": DEAR}, "begin at 1"),
        ({"model": "a b"}, "model's name"),
        ({"some": Rates(input=-1, cached_input=0, output=0)}, "a rate is 0"),
        ({"some": Rates(input=0, cached_input=0, output=HIGHEST_RATE + 1)}, "a rate is 0"),
    ],
)
def test_unusable_prices_are_refused(
    sqlite: Database, options: dict[str, object], complaint: str
) -> None:
    with pytest.raises(AccessError, match=complaint):
        put(sqlite, **options)  # type: ignore[arg-type]
    with sqlite.transaction() as connection:
        assert list_prices(connection) == []


@given(rates, rates, rates, tokens, tokens, tokens)
def test_a_cost_is_the_sum_of_its_tokens(
    fresh: int, cheap: int, out: int, uncached: int, cached: int, completion: int
) -> None:
    some = Rates(input=fresh, cached_input=cheap, output=out)
    price = Price(id=uuid7(), model="a", version=1, valid_from=0, rates=some)
    cost = price.cost(prompt=uncached + cached, cached=cached, completion=completion)
    assert cost == uncached * fresh + cached * cheap + completion * out < 2**63


def test_long_requests_cost_the_long_rates() -> None:
    price = Price(
        id=uuid7(), model="a", version=1, valid_from=0, rates=CHEAP, long_from=9, long_rates=DEAR
    )
    assert price.cost(prompt=8, cached=0, completion=1) == 8 + 2
    assert price.cost(prompt=9, cached=4, completion=1) == 5 * 7 + 4 * 3 + 9


@given(rates)
def test_rates_are_read_as_they_are_written(rate: int) -> None:
    text = format_rate(rate)
    assert parse_rate(text) == rate
    assert Decimal(text) * 10**9 == rate * 10**6


@given(st.integers(0, 2**63))
def test_money_is_read_as_it_is_written(amount: int) -> None:
    text = format_money(amount)
    assert parse_money(text) == amount
    assert Decimal(text) * 10**9 == amount


def test_amounts_look_as_people_write_them() -> None:
    assert [format_rate(nano) for nano in (150, 0, 5, 2500)] == ["0.15", "0.00", "0.005", "2.50"]
    assert format_money(5 * 10**9) == "5.00"
    assert [parse_money(text) for text in ("5", "5.0", ".5", "5.", "0.000000001")] == [
        5 * 10**9,
        5 * 10**9,
        5 * 10**8,
        5 * 10**9,
        1,
    ]


@pytest.mark.parametrize("text", ["", ".", "-1", "+1", "1e3", "1,5", "nan", "inf", "1_0", "٣", "x"])
def test_what_is_no_plain_amount_is_refused(text: str) -> None:
    for parse in (parse_money, parse_rate):
        with pytest.raises(AccessError, match="is not an amount"):
            parse(text)


def test_what_is_finer_than_a_nano_unit_is_refused() -> None:
    with pytest.raises(AccessError, match="at most 3 decimals"):
        parse_rate("0.1501")
    assert parse_rate("0.1500") == 150
    with pytest.raises(AccessError, match="at most 9 decimals"):
        parse_money("0.0000000001")
    with pytest.raises(AccessError, match="at most 1000000"):
        parse_rate("1000000.001")
