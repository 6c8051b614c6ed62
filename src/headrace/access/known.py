"""Which models there are, so that aliases, pins and prices of unknown ones are refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from headrace.access.errors import AccessError
from headrace.hints import did_you_mean


class KnownModels(Protocol):
    """The models that the service knows, or a command beside it."""

    def names(self) -> Collection[str]:
        """Of models."""
        ...

    def groups(self) -> Collection[str]:
        """Other names that a request may use, which stand for several models."""
        ...

    def versions(self, model: str) -> Collection[str]:
        """Those of a model that can be served."""
        ...


def check_model(known: KnownModels, model: str) -> None:
    """Raises AccessError, which names the nearest model, if there is none of this name."""
    names = known.names()
    if model not in names:
        raise AccessError(f"there is no model {model!r}{did_you_mean(model, names)}")


def check_version(known: KnownModels, model: str, version: str) -> None:
    """Raises AccessError if there is no such model, or no such version of it."""
    check_model(known, model)
    versions = known.versions(model)
    if version not in versions:
        there_are = f"; there are {', '.join(sorted(versions))}" if versions else ""
        raise AccessError(f"there is no version {version!r} of {model}{there_are}")


def check_target(known: KnownModels, target: str, aliases: Collection[str]) -> None:
    """Raises AccessError if the target is no model, version of one, group or one of these
    aliases."""
    model, at, version = target.partition("@")
    if at:
        check_version(known, model, version)
    elif target not in aliases and target not in known.groups():
        names = [*known.names(), *aliases, *known.groups()]
        if target not in names:
            raise AccessError(f"there is no model or alias {target!r}{did_you_mean(target, names)}")


def exists(known: KnownModels, target: str, aliases: Collection[str] = ()) -> bool:
    """Whether `check_target` accepts it."""
    try:
        check_target(known, target, aliases)
    except AccessError:
        return False
    return True
