"""Whom a request belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.access.limits import UNLIMITED, Limits
from headrace.access.tenant import Tenant

Scope = Literal["inference", "admin"]
SCOPES: tuple[Scope, ...] = ("inference", "admin")
"""What a key may be allowed: to use models, to administer the service."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a valid key. key_id: the public part of the key; limits: the key's own,
    beside its tenant's."""

    tenant: Tenant
    key_id: str
    scopes: frozenset[Scope]
    limits: Limits = UNLIMITED

    @property
    def default_max_tokens(self) -> int | None:
        """Of an answer whose request names no limit: the tenant's or the key's, whichever is
        smaller; None leaves it to the model."""
        both = (self.tenant.limits.default_max_tokens, self.limits.default_max_tokens)
        return min((limit for limit in both if limit is not None), default=None)
