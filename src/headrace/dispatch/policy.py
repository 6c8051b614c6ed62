"""How requests of a class are treated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.access.tenant import ServiceClass

MOST_FLOORS = 0.8
"""Part of the places that may be kept for classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPolicy:
    """share: of the service against other classes that wait. floor: part of the places that
    others leave free while the class is in use. max_queue: requests of it that may wait.
    deadline: seconds after which a first token is of no use; a caller may only ask for less. age:
    seconds of waiting after which one is its tenant's next, whatever the deadlines, and its class
    the next, whatever the shares, once in that time. rank: which class goes before which in the
    engine, the greatest first."""

    share: float
    floor: float
    max_queue: int
    deadline: float
    age: float
    rank: int


Policies = Mapping[ServiceClass, ClassPolicy]


def adjusted(policies: Policies, changes: Mapping[ServiceClass, Mapping[str, Any]]) -> Policies:
    """With other values for some fields of some classes. Raises ValueError if floors would leave
    too little for whoever is above its own."""
    made = {name: replace(policy, **changes.get(name, {})) for name, policy in policies.items()}
    floors = sum(policy.floor for policy in made.values())
    if floors > MOST_FLOORS:
        raise ValueError(f"the floors of all classes come to {floors:g}, more than {MOST_FLOORS}")
    return made


def usual_policies(max_queue: int) -> Policies:
    return {
        "interactive": ClassPolicy(
            share=8, floor=0.25, max_queue=max_queue, deadline=5, age=3, rank=2
        ),
        "default": ClassPolicy(
            share=4, floor=0.125, max_queue=max_queue, deadline=60, age=30, rank=1
        ),
        "batch": ClassPolicy(
            share=1, floor=0.0625, max_queue=max_queue, deadline=3600, age=300, rank=0
        ),
    }
