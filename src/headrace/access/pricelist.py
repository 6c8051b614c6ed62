"""Prices of models, from memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.access.price import Price
from headrace.access.prices import list_prices
from headrace.store.database import Database


class PriceList:
    """Remembers every version of the prices of models that were asked for, until `forget`, so that
    one set for later becomes valid at its moment. There must be few models; whoever asks sees to
    it. now: unix seconds."""

    def __init__(self, database: Database, *, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now
        self._versions: dict[str, Sequence[Price]] = {}

    def forget(self) -> None:
        """After a change."""
        self._versions = {}  # one that is being read goes to the old ones

    async def price(self, model: str) -> Price | None:
        """What is valid now; None if the model has no price. Raises DatabaseUnavailable where it
        is not in memory and the database cannot be asked."""
        versions = self._versions.get(model)
        if versions is None:
            remembered = self._versions
            versions = await self._database.run(lambda connection: list_prices(connection, model))
            remembered[model] = versions
        moment = self._now() * 1000
        valid = [price for price in versions if price.valid_from <= moment]
        return max(valid, key=lambda price: (price.valid_from, price.version), default=None)
