"""`GET /v1/models` and `/v1/models/{id}`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headrace.api.openai.errors import model_not_found
from headrace.api.openai.models import ModelCard, ModelList
from headrace.edge.authentication import authenticate
from headrace.edge.responses import json_response
from headrace.edge.services import Services


class ModelsEndpoint:
    """What may be named, for whoever has a key."""

    def __init__(self, services: Services) -> None:
        self._keys = services.keys
        self._router = services.router

    async def all(self, request: Request) -> Response:
        return json_response(ModelList(data=await self._cards(request)))

    async def show(self, request: Request) -> Response:
        name = request.path_params["model"]
        for card in await self._cards(request):
            if card.id == name:
                return json_response(card)
        raise model_not_found(name)

    async def _cards(self, request: Request) -> list[ModelCard]:
        principal = await authenticate(request.scope, self._keys)
        served = self._router.served(principal)
        return [ModelCard(id=model.name, created=model.created) for model in served]
