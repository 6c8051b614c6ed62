"""How dispatch is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headrace.access.tenant import ServiceClass
from headrace.dispatch.shed import ShedReason
from headrace.fleet.supervisor import WorkerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStatus:
    """A tenant in a class that has anything going on. queued, running: requests. oldest: seconds
    that the first of those who wait has waited; 0 if nobody waits."""

    tenant: UUID
    service_class: ServiceClass
    queued: int
    running: int
    oldest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchStatus:
    """queued: requests waiting here; running: requests on the worker; draining: nothing new
    is admitted; worker: how the worker process is. long_running of them are long, and at most
    long_places may be. tenants: who waits or runs, by class. sheds: requests that were
    turned away since the start, by class and reason."""

    queued: int
    running: int
    draining: bool
    worker: WorkerStatus
    places: int = 0
    long_running: int = 0
    long_places: int = 0
    tenants: tuple[TenantStatus, ...] = ()
    sheds: Mapping[tuple[ServiceClass, ShedReason], int] = field(default_factory=dict)
