"""One budget of memory for several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.fleet.errors import DoesNotFit
from headrace.fleet.sizes import mebibytes


@dataclass(frozen=True, slots=True)
class Claim:
    """What a model's process holds at most, in bytes. least: with the smallest KV cache it can
    have; whole: with one that holds a sequence of its whole context. elastic: its cache may be
    of any size from `least` on. always: it is loaded at the start and stays."""

    label: str
    least: int
    whole: int
    elastic: bool
    always: bool


def plan(limit: int, claims: Sequence[Claim]) -> Mapping[str, int]:
    """Each model's part of the budget, in bytes.

    What their least leaves goes to elastic models in equal parts. Models loaded on demand are
    planned beside each other if all of them then hold a whole sequence; else for one of them at
    a time, each with the place that the largest needs.

    Raises:
        DoesNotFit: the models loaded at the start, and the largest of the others, do not fit.
    """
    always = [claim for claim in claims if claim.always]
    demand = [claim for claim in claims if not claim.always]
    share = _share(limit, claims)
    if share is not None and all(_with(share, claim) >= claim.whole for claim in demand):
        return {claim.label: _with(share, claim) for claim in claims}
    place = _largest(demand)
    share = _share(limit, [*always, place])
    if share is None:
        raise DoesNotFit(_too_small(limit, always, demand))
    parts = {claim.label: _with(share, claim) for claim in always}
    for claim in demand:
        parts[claim.label] = _with(share, place) if claim.elastic else claim.least
    return parts


def _share(limit: int, claims: Sequence[Claim]) -> int | None:
    """What each elastic one gets beyond its least; None if not even that fits."""
    rest = limit - sum(claim.least for claim in claims)
    return None if rest < 0 else rest // max(sum(claim.elastic for claim in claims), 1)


def _with(share: int, claim: Claim) -> int:
    return claim.least + share if claim.elastic else claim.least


def _largest(demand: Sequence[Claim]) -> Claim:
    """The place in which any of them fits."""
    least = max((claim.least for claim in demand), default=0)
    elastic = any(claim.elastic for claim in demand)
    return Claim("on demand", least, least, elastic, always=False)


def _too_small(limit: int, always: Sequence[Claim], demand: Sequence[Claim]) -> str:
    parts = [f"{claim.label} {mebibytes(claim.least)}" for claim in always]
    needed = sum(claim.least for claim in always)
    if demand:
        largest = max(demand, key=lambda claim: claim.least)
        parts.append(f"{largest.label} {mebibytes(largest.least)} on demand")
        needed += largest.least
    return (
        f"memory is {mebibytes(limit)}, but the models need {mebibytes(needed)} at least:"
        f" {', '.join(parts)}"
    )
