"""On what terms a request waits for its place."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from headrace.access.tenant import ServiceClass
from headrace.dispatch.siblings import Siblings

NOBODY = UUID(int=0)
"""Whom the service's own requests belong to."""


class Terms(Struct, frozen=True, kw_only=True):
    """tenant: whose service it counts as, weighed by `weight` against other tenants of the
    class. deadline: unix seconds after which the answer's first token is of no use; None for the
    class's own. long: it waits in the long lane. siblings: of what answer it is one generation of
    several."""

    tenant: UUID = NOBODY
    weight: int = 1
    service_class: ServiceClass = "default"
    deadline: float | None = None
    long: bool = False
    siblings: Siblings | None = None


USUAL = Terms()
