"""From the name in a request to a model, and the way there in words.

A name is looked up as the tenant's alias, then as a model's name, with or without a version,
then as a tier, then as "auto". An alias may stand for any of them; what it stands for is looked
up likewise, each alias once. A bare name means the version that the tenant is pinned to, else
the current one. Load plays no part: the same request finds the same model.

What a tenant may not use does not exist for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from headrace.access.price import Rates
from headrace.access.tenant import Tenant
from headrace.routing.menu import Menu, Offer
from headrace.routing.needs import Needs
from headrace.routing.tier import AUTO

T = TypeVar("T", bound=Offer)

PriceOf = Callable[[str], Rates]
"""What a model's tokens cost now, by its name."""

_UNSAFE = re.compile(r"[^ -:<-~]")

MOST_TOLD = 4
"""Refused models that an explanation tells of."""


class NoSuchModel(LookupError):
    """The name means nothing to this tenant; or an alias leads back to itself, as the message
    then says."""


class NothingFits(LookupError):
    """The name means models, but none is what the request demands. The message says why."""


class Choice(Struct, Generic[T], frozen=True):
    """why: short, printable ASCII, for a header."""

    offer: T
    why: str


def choose(name: str, tenant: Tenant, menu: Menu[T], needs: Needs, price_of: PriceOf) -> Choice[T]:
    """Raises NoSuchModel or NothingFits."""
    way = _aliases(name, tenant)
    target = way[-1]
    if offer := _named(target, tenant, menu):
        candidates: Sequence[T] = [offer]
    else:
        candidates = _tier(target, tenant, menu)
    if not candidates:
        raise NoSuchModel("")
    steps = [f"alias {_safe(step)}" for step in way[:-1]]
    chosen, without = _best(candidates, needs, price_of)
    label = f"{chosen.name}@{chosen.version}"
    if target != label:
        pinned = " (pin)" if not chosen.current and "@" not in target else ""
        steps.append(_safe(target) + pinned)
    return Choice(chosen, " -> ".join([*steps, _safe(label)]) + _told(without))


def _aliases(name: str, tenant: Tenant) -> list[str]:
    """The name and what it stands for in turn. Raises NoSuchModel for a circle."""
    way = [name]
    while (target := tenant.aliases.get(way[-1])) is not None:
        if target in way:
            circle = " -> ".join(_safe(step) for step in [*way, target])
            raise NoSuchModel(f"its alias leads back to itself ({circle})")
        way.append(target)
    return way


def _named(name: str, tenant: Tenant, menu: Menu[T]) -> T | None:
    """Raises NoSuchModel for a version that the tenant is pinned to and that is not there."""
    bare, at, version = name.partition("@")
    if not _may_use(tenant, bare):
        return None
    if at:
        return menu.version(bare, version)
    current = menu.current(bare)
    found = current and _pinned(current, tenant, menu)
    if current and not found:
        version = _safe(tenant.pins[bare])
        raise NoSuchModel(f"its version {version}, to which it is pinned, is not there")
    return found


def _pinned(offer: T, tenant: Tenant, menu: Menu[T]) -> T | None:
    version = tenant.pins.get(offer.name)
    return offer if version is None else menu.version(offer.name, version)


def _tier(name: str, tenant: Tenant, menu: Menu[T]) -> list[T]:
    """Those of a tier in the menu's order; for "auto" all, the largest first."""
    offers = menu.largest_first() if name == AUTO else menu.of_tier(name)
    usable = [offer for offer in offers if _may_use(tenant, offer.name)]
    return [found for offer in usable if (found := _pinned(offer, tenant, menu))]


def _best(candidates: Sequence[T], needs: Needs, price_of: PriceOf) -> tuple[T, list[str]]:
    """The first that has all that is demanded, of those that know what the request makes use of
    if any does; and why others, which come before it, were passed over."""
    faults = [(offer, _fault(offer, needs, price_of)) for offer in candidates]
    fitting = [offer for offer, fault in faults if fault is None]
    if not fitting:
        raise NothingFits(", ".join(f"{offer.name} ({fault})" for offer, fault in faults))
    chosen = min(fitting, key=lambda offer: _lacks(offer, needs))
    before = faults[: candidates.index(chosen)]
    return chosen, [f"{offer.name} ({fault or 'abilities'})" for offer, fault in before]


def _fault(offer: Offer, needs: Needs, price_of: PriceOf) -> str | None:
    """What is demanded and not so, in a word."""
    wishes = needs.wishes
    if "tools" in wishes.capabilities and not offer.tools:
        return "tools"
    if "reasoning" in wishes.capabilities and not offer.reasoning:
        return "reasoning"
    if offer.context_length < wishes.context_length:
        return "context"
    if not wishes.priced:
        return None
    price = price_of(offer.name)
    for limit, asked in (
        (wishes.max_input_price, price.input),
        (wishes.max_output_price, price.output),
    ):
        if limit is not None and asked > limit:
            return "price"
    return None


def _lacks(offer: Offer, needs: Needs) -> int:
    """How much of what the request makes use of the model does not know."""
    return (
        (needs.tools and not offer.tools)
        + (needs.reasoning and not offer.reasoning)
        + (offer.context_length < needs.tokens)
    )


def _may_use(tenant: Tenant, name: str) -> bool:
    return tenant.models is None or name in tenant.models


def _told(without: Sequence[str]) -> str:
    return f"; without {_listed(without)}" if without else ""


def _listed(words: Iterable[str]) -> str:
    told = [_safe(word) for word in words]
    more = ["..."] if len(told) > MOST_TOLD else []
    return ", ".join([*told[:MOST_TOLD], *more])


def _safe(text: str) -> str:
    """What may stand in a header: any caller may have chosen it."""
    return _UNSAFE.sub("?", text)[:100]
