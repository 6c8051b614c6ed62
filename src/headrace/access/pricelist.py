"""Prices of models, from memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.access.price import Price
from headrace.access.prices import list_prices
from headrace.access.revision import EVERYTHING, Change
from headrace.store.database import Database


class PriceList:
    """Remembers every version of the prices of models that were asked for, until it hears that a
    price changed. So a price that was set for later becomes valid at its moment. The caller sees
    to it that there are few models. now: unix seconds."""

    def __init__(self, database: Database, *, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now
        self._versions: dict[str, Sequence[Price]] = {}

    def hear(self, changes: Sequence[Change]) -> None:
        """Forget what changed. A price that is being read meanwhile is not remembered."""
        if EVERYTHING in changes or any(change.kind == "price" for change in changes):
            self._versions = {}

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
