"""`GET /v1/models` and `/v1/models/{id}`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headrace.access.principal import Principal
from headrace.api.anthropic.models import ModelInfo, model_info, model_page
from headrace.api.anthropic.version import HEADER, check_version
from headrace.api.openai.models import ModelCard, ModelList, model_card
from headrace.edge.authentication import authenticate
from headrace.edge.exchange import exchange_of
from headrace.edge.rate_limits import rate_limit_headers
from headrace.edge.responses import json_response
from headrace.edge.services import ServedModel, Services
from headrace.edge.wire import ANTHROPIC


class ModelsEndpoint:
    """What may be named, for whoever has a key."""

    def __init__(self, services: Services) -> None:
        self._keys = services.keys
        self._router = services.router
        self._quotas = services.quotas

    async def all(self, request: Request) -> Response:
        principal = await self._greet(request)
        names = self._router.names(principal)
        if exchange_of(request.scope).wire is ANTHROPIC:
            return json_response(model_page([_info(name, model) for name, model in names]))
        return json_response(ModelList(data=[_card(name, model) for name, model in names]))

    async def show(self, request: Request) -> Response:
        """Of any name that requests may use: a version, an alias and a tier too."""
        principal = await self._greet(request)
        name = request.path_params["model"]
        model = self._router.find(name, principal)
        if exchange_of(request.scope).wire is ANTHROPIC:
            return json_response(_info(name, model))
        return json_response(_card(name, model))

    async def _greet(self, request: Request) -> Principal:
        """Who asks; the answer tells how its limits stand, though it draws from none. Raises
        ApiError, also for a version of Anthropic's API that there is not."""
        principal = await authenticate(request.scope, self._keys)
        check_version(request.headers.get(HEADER))
        standings = await self._quotas.standings(principal)
        exchange = exchange_of(request.scope)
        exchange.headers.update(rate_limit_headers(standings, exchange.wire))
        return principal


def _info(name: str, model: ServedModel) -> ModelInfo:
    return model_info(name, model.created, model.context_length)


def _card(name: str, model: ServedModel) -> ModelCard:
    return model_card(name, model.created, model.context_length)
