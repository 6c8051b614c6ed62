"""`GET /v1/models` and `/v1/models/{id}`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headrace.api.openai.models import ModelCard, ModelList
from headrace.edge.authentication import authenticate
from headrace.edge.responses import json_response
from headrace.edge.services import ServedModel, Services


class ModelsEndpoint:
    """What may be named, for whoever has a key."""

    def __init__(self, services: Services) -> None:
        self._keys = services.keys
        self._router = services.router

    async def all(self, request: Request) -> Response:
        principal = await authenticate(request.scope, self._keys)
        names = self._router.names(principal)
        return json_response(ModelList(data=[_card(name, model) for name, model in names]))

    async def show(self, request: Request) -> Response:
        """Of any name that requests may use: a version, an alias and a tier too."""
        principal = await authenticate(request.scope, self._keys)
        name = request.path_params["model"]
        return json_response(_card(name, self._router.find(name, principal)))


def _card(name: str, model: ServedModel) -> ModelCard:
    return ModelCard(id=name, created=model.created)
