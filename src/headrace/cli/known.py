"""The models that commands beside a service know of."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.models.catalogue import Catalogue

Force = Annotated[
    bool, typer.Option("--force", help="Also where no such model or version is known here.")
]


class CatalogueModels:
    """`access.known.KnownModels`: the catalogue's, the installed ones, and those that the settings
    name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def names(self) -> Collection[str]:
        return self._texts.keys()

    def groups(self) -> Collection[str]:
        from headrace.routing.tier import AUTO, TIERS

        return (*TIERS, AUTO)

    def versions(self, model: str) -> Collection[str]:
        text = self._texts[model]
        found = {version.version for version in self._catalogue.versions(text)}
        default = self._catalogue.get(text).version
        return found if default is None else found | {default}

    @cached_property
    def _catalogue(self) -> Catalogue:
        from headrace.models.catalogue import Catalogue

        return Catalogue(self._settings.models_dir)

    @cached_property
    def _texts(self) -> dict[str, str]:
        """What the catalogue calls each model, by its name."""
        from headrace.models.errors import CatalogueError

        texts = {name: name for name in self._catalogue.names()}
        for text in self._settings.served:
            try:
                texts.setdefault(self._catalogue.get(text).name, text)
            except CatalogueError:
                continue
        return texts
