"""Which model a request means, and that it is in memory."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.access.price import Rates
from headrace.access.principal import Principal
from headrace.api.openai.errors import invalid_request, model_not_found
from headrace.edge.services import Models, Prices, Route, ServedModel
from headrace.routing.choice import Choice, NoSuchModel, NothingFits, PriceOf, choose
from headrace.routing.needs import Needs

ANY = Needs()


def free(model: str) -> Rates:
    """Where prices play no part."""
    return Rates(input=0, cached_input=0, output=0)


class ModelRouter:
    """`routing.choice` over the models there are."""

    def __init__(self, models: Models, prices: Prices) -> None:
        self._models = models
        self._prices = prices

    async def route(
        self, name: str, principal: Principal, needs: Needs, deadline: float | None
    ) -> Route:
        """Raises ApiError, Refused where the model can't be loaded now, and DatabaseUnavailable
        where a price is limited and can't be looked up."""
        price_of = await self._price_list() if needs.wishes.priced else free
        choice = self._choose(name, principal, needs, price_of)
        return Route(await self._models.use(choice.offer, deadline), choice.why)

    def find(self, name: str, principal: Principal) -> ServedModel:
        """Raises ApiError."""
        return self._choose(name, principal, ANY, free).offer

    def names(self, principal: Principal) -> Sequence[tuple[str, ServedModel]]:
        """Models, then aliases; those that mean nothing are left out."""
        found: dict[str, ServedModel] = {}
        for name in (*self._models.menu.names(), *sorted(principal.tenant.aliases)):
            try:
                offer = choose(name, principal.tenant, self._models.menu, ANY, free).offer
            except LookupError:
                continue
            found.setdefault(name, offer)
        return list(found.items())

    async def _price_list(self) -> PriceOf:
        """The highest that each model may cost. One without a price costs nothing."""
        found = {name: await self._prices.price(name) for name in self._models.menu.names()}
        highest = {name: price.highest for name, price in found.items() if price}
        return lambda name: highest.get(name) or free(name)

    def _choose(
        self, name: str, principal: Principal, needs: Needs, price_of: PriceOf
    ) -> Choice[ServedModel]:
        try:
            return choose(name, principal.tenant, self._models.menu, needs, price_of)
        except NoSuchModel as error:
            raise model_not_found(name, str(error)) from None
        except NothingFits as error:
            message = f"No model under '{name[:200]}' is what 'route' demands: {error}."
            raise invalid_request(message, "route", "no_model_fits") from None
