"""The models to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from headrace.routing.tier import TIERS, Tier


class Offer(Protocol):
    """A version of a model that is served (`edge.services.ServedModel`)."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def context_length(self) -> int: ...

    @property
    def tier(self) -> Tier | None: ...

    @property
    def current(self) -> bool: ...

    @property
    def tools(self) -> bool: ...

    @property
    def reasoning(self) -> bool: ...


T = TypeVar("T", bound=Offer)


class Menu(Generic[T]):
    """Offers in their order, the default first, and the ways to look them up."""

    def __init__(self, offers: Iterable[T]) -> None:
        self._offers = tuple(offers)
        self._current = {offer.name: offer for offer in self._offers if offer.current}
        self._versions = {(offer.name, offer.version): offer for offer in self._offers}

    def __iter__(self) -> Iterator[T]:
        return iter(self._offers)

    def current(self, name: str) -> T | None:
        """The version that the bare name means."""
        return self._current.get(name)

    def version(self, name: str, version: str) -> T | None:
        return self._versions.get((name, version))

    def names(self) -> Sequence[str]:
        return tuple(self._current)

    def largest_first(self) -> Sequence[T]:
        """Current ones by their tiers; those without one last, in the menu's order each."""
        return sorted(self._current.values(), key=_smallness)

    def of_tier(self, tier: str) -> Sequence[T]:
        return [offer for offer in self._current.values() if offer.tier == tier]


def _smallness(offer: Offer) -> int:
    return len(TIERS) if offer.tier is None else -TIERS.index(offer.tier)
