"""A model that is served, as the edge uses it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.edge.plan import Planner
from headrace.edge.services import Places, ServedModel


@dataclass(frozen=True, slots=True)
class Deployment:
    """planner: makes generations of requests for it; places: where they run."""

    model: ServedModel
    planner: Planner
    places: Places
