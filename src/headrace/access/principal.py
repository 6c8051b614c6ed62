"""Whom a request belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Scope = Literal["inference", "admin"]
SCOPES: tuple[Scope, ...] = ("inference", "admin")
"""What a key may be allowed: to use models, to administer the service."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a valid key. tenant: its name; key_id: the public part of the key."""

    tenant_id: UUID
    tenant: str
    key_id: str
    scopes: frozenset[Scope]
