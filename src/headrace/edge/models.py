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
    """What is served, for whoever has a key."""

    def __init__(self, services: Services) -> None:
        self._keys = services.keys
        self._card = ModelCard(id=services.model.name, created=services.model.created)

    async def list(self, request: Request) -> Response:
        await authenticate(request.scope, self._keys)
        return json_response(ModelList(data=[self._card]))

    async def show(self, request: Request) -> Response:
        await authenticate(request.scope, self._keys)
        name = request.path_params["model"]
        if name != self._card.id:
            raise model_not_found(name)
        return json_response(self._card)
