"""Prices, administered."""

from __future__ import annotations

from typing import Any

from headrace.access.known import KnownModels
from headrace.access.price import Price, Rates, format_rate, parse_rate
from headrace.access.prices import list_prices, set_price
from headrace.api.admin.prices import (
    LongPrice,
    LongPriceView,
    PriceBody,
    PriceList,
    PriceView,
)
from headrace.edge.admin.endpoint import Ask
from headrace.edge.admin.office import Office
from headrace.edge.admin.values import given, milliseconds


class Prices:
    def __init__(self, office: Office, known: KnownModels) -> None:
        self._office = office
        self._known = known

    async def list(self, ask: Ask) -> PriceList:
        model = given(ask.query.model)
        found = await self._office.report(ask.principal.key_id, lambda db: list_prices(db, model))
        return PriceList(data=[_view(price) for price in found])

    async def set(self, ask: Ask) -> PriceView:
        body: PriceBody = ask.body
        rates, long = _rates(body), body.long
        return _view(
            await self._office.change(
                lambda db: set_price(
                    db,
                    body.model,
                    rates,
                    actor=ask.actor,
                    known=self._known,
                    long_from=None if long is None else long.from_tokens,
                    long_rates=None if long is None else _rates(long),
                    valid_from=milliseconds(body.valid_from),
                )
            )
        )


def _rates(price: PriceBody | LongPrice) -> Rates:
    cached = price.input if price.cached_input is None else price.cached_input
    return Rates(
        input=parse_rate(price.input),
        cached_input=parse_rate(cached),
        output=parse_rate(price.output),
    )


def _view(price: Price) -> PriceView:
    long = None
    if price.long_from is not None and price.long_rates is not None:
        long = LongPriceView(from_tokens=price.long_from, **_told(price.long_rates))
    return PriceView(
        id=str(price.id),
        model=price.model,
        version=price.version,
        valid_from=price.valid_from // 1000,
        long=long,
        **_told(price.rates),
    )


def _told(rates: Rates) -> dict[str, Any]:
    return {
        "input": format_rate(rates.input),
        "cached_input": format_rate(rates.cached_input),
        "output": format_rate(rates.output),
    }
