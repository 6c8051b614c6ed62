"""Which model a request means, and that it is in memory."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.access.price import Rates
from headrace.access.principal import Principal
from headrace.api.openai.errors import invalid_request, model_not_found
from headrace.edge.services import Models, Route, ServedModel
from headrace.routing.choice import Choice, NoSuchModel, NothingFits, PriceOf, choose
from headrace.routing.needs import Needs

ANY = Needs()


def free(model: str) -> Rates:
    """Where nothing has a price."""
    return Rates(input=0, cached_input=0, output=0)


class ModelRouter:
    """`routing.choice` over the models there are."""

    def __init__(self, models: Models, price_of: PriceOf = free) -> None:
        self._models = models
        self._price_of = price_of

    async def route(self, name: str, principal: Principal, needs: Needs) -> Route:
        """Raises ApiError, and Refused where the model can't be loaded now."""
        choice = self._choose(name, principal, needs)
        return Route(await self._models.use(choice.offer), choice.why)

    def find(self, name: str, principal: Principal) -> ServedModel:
        """Raises ApiError."""
        return self._choose(name, principal, ANY).offer

    def names(self, principal: Principal) -> Sequence[tuple[str, ServedModel]]:
        """Models, then aliases; those that mean nothing are left out."""
        found: dict[str, ServedModel] = {}
        for name in (*self._models.menu.names(), *sorted(principal.tenant.aliases)):
            try:
                offer = choose(name, principal.tenant, self._models.menu, ANY, self._price_of).offer
            except LookupError:
                continue
            found.setdefault(name, offer)
        return list(found.items())

    def _choose(self, name: str, principal: Principal, needs: Needs) -> Choice[ServedModel]:
        try:
            return choose(name, principal.tenant, self._models.menu, needs, self._price_of)
        except NoSuchModel as error:
            raise model_not_found(name, str(error)) from None
        except NothingFits as error:
            message = f"No model under '{name[:200]}' is what 'route' demands: {error}."
            raise invalid_request(message, "route", "no_model_fits") from None
