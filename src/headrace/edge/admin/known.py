"""The models that the service knows of."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headrace.edge.services import Models
from headrace.routing.tier import AUTO, TIERS

Installed = Callable[[str], Collection[str]]
"""Versions of a served model that are installed, by its name."""


class ServedModels:
    """`access.known.KnownModels`: those that are served, and their installed versions."""

    def __init__(self, models: Models, installed: Installed) -> None:
        self._models = models
        self._installed = installed

    def names(self) -> Collection[str]:
        return self._models.menu.names()

    def groups(self) -> Collection[str]:
        return (*TIERS, AUTO)

    def versions(self, model: str) -> Collection[str]:
        served = {offer.version for offer in self._models.menu if offer.name == model}
        return served | set(self._installed(model))
