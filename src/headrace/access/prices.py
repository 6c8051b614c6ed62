"""Prices in the database. Every function works inside the caller's transaction; the changes want a
write transaction."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, func, insert, select

from headrace.access.audit import record
from headrace.access.errors import AccessError
from headrace.access.known import KnownModels, check_model
from headrace.access.names import checked_word
from headrace.access.price import HIGHEST_RATE, Price, Rates
from headrace.access.revision import Change, begin_change
from headrace.store.ids import uuid7
from headrace.store.schema import prices

LONGEST = 2**31 - 1
_RATES = ("input", "cached_input", "output")


def list_prices(connection: Connection, model: str | None = None) -> list[Price]:
    """All versions ever, or a model's: by model, the oldest first."""
    query = select(prices).order_by(prices.c.model, prices.c.version)
    if model is not None:
        query = query.where(prices.c.model == model)
    return [_price(row._asdict()) for row in connection.execute(query)]


def find_price(connection: Connection, model: str, moment: int) -> Price | None:
    """The model's price at this moment, in unix milliseconds: the last that has become valid,
    and of several at once the last that was set."""
    query = select(prices).where(prices.c.model == model, prices.c.valid_from <= moment)
    newest = query.order_by(prices.c.valid_from.desc(), prices.c.version.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return None if row is None else _price(row._asdict())


def prices_at(connection: Connection, moment: int) -> dict[str, Price]:
    """The prices of all models at this moment, as `find_price`, by the model's name."""
    begun = select(prices).where(prices.c.valid_from <= moment)
    rows = connection.execute(begun.order_by(prices.c.model, prices.c.valid_from, prices.c.version))
    return {row.model: _price(row._asdict()) for row in rows}


def set_price(
    connection: Connection,
    model: str,
    rates: Rates,
    *,
    actor: str,
    long_from: int | None = None,
    long_rates: Rates | None = None,
    valid_from: int | None = None,
    known: KnownModels | None = None,
) -> Price:
    """Write down another version of the model's price. valid_from: unix milliseconds, now if None.
    known: the models that there are; None: whatever the name is.

    Raises:
        AccessError: an unusable name, rate or threshold, a moment that has passed, or a model that
            does not exist.
    """
    begin_change(connection, Change("price", model))
    checked_word("model's name", model)
    if known is not None:
        check_model(known, model)
    now = time.time_ns() // 1_000_000
    if valid_from is not None and valid_from < now:
        raise AccessError("a price cannot become valid in the past")
    if (long_from is None) != (long_rates is None):
        raise AccessError("a threshold and the rates of long requests go together")
    if long_from is not None and not 1 <= long_from <= LONGEST:
        raise AccessError(f"long requests begin at 1 to {LONGEST} tokens")
    for some in filter(None, (rates, long_rates)):
        if not all(0 <= rate <= HIGHEST_RATE for rate in asdict(some).values()):
            raise AccessError(f"a rate is 0 to {HIGHEST_RATE} nano-units a token")
    latest = select(func.coalesce(func.max(prices.c.version), 0)).where(prices.c.model == model)
    version: int = connection.scalars(latest).one()
    moment = now if valid_from is None else valid_from
    before = find_price(connection, model, moment)
    price = Price(
        id=uuid7(),
        model=model,
        version=1 + version,
        valid_from=moment,
        rates=rates,
        long_from=long_from,
        long_rates=long_rates,
    )
    connection.execute(insert(prices).values(id=price.id, **_columns(price)))
    earlier = None if before is None else _columns(before)
    record(connection, actor, "price.set", model, before=earlier, after=_columns(price))
    return price


def _columns(price: Price) -> dict[str, object]:
    """All but the identity."""
    long_rates = asdict(price.long_rates) if price.long_rates else dict.fromkeys(_RATES)
    return {
        "model": price.model,
        "version": price.version,
        "valid_from": price.valid_from,
        **asdict(price.rates),
        "long_from": price.long_from,
        **{f"long_{name}": rate for name, rate in long_rates.items()},
    }


def _price(values: dict[str, Any]) -> Price:
    return Price(
        id=values["id"],
        model=values["model"],
        version=values["version"],
        valid_from=values["valid_from"],
        rates=Rates(**{name: values[name] for name in _RATES}),
        long_from=values["long_from"],
        long_rates=None
        if values["long_from"] is None
        else Rates(**{name: values[f"long_{name}"] for name in _RATES}),
    )
