"""Which model a request means."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.access.principal import Principal
from headrace.api.openai.errors import model_not_found
from headrace.edge.deployment import Deployment
from headrace.edge.services import Needs, Route, ServedModel


class SingleModel:
    """One model under its own name."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    async def route(self, name: str, principal: Principal, needs: Needs) -> Route:
        """Raises ApiError."""
        model = self._deployment.model
        if name != model.name:
            raise model_not_found(name)
        return Route(self._deployment, f"{model.name}@{model.version}")

    def served(self, principal: Principal) -> Sequence[ServedModel]:
        return [self._deployment.model]

    def deployments(self) -> Sequence[Deployment]:
        return [self._deployment]
