"""Whom the service works for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from headrace.access.limits import UNLIMITED, Limits

ServiceClass = Literal["interactive", "default", "batch"]
SERVICE_CLASSES: tuple[ServiceClass, ...] = ("interactive", "default", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """service_class: the best its requests may ask for, and what they get by default. weight: its
    share of the service against other tenants of its class. models: names of models it may use,
    None for all. aliases: its own names for models and everybody's, of which its own win. pins:
    versions of models it stays with, by the model's name. enabled: False turns all its requests
    away. created_at: unix milliseconds."""

    id: UUID
    name: str
    service_class: ServiceClass = "default"
    weight: int = 1
    limits: Limits = UNLIMITED
    models: frozenset[str] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    pins: Mapping[str, str] = field(default_factory=dict, hash=False)
    enabled: bool = True
    created_at: int = 0
