"""Tenants in the database. Every function works inside the caller's transaction; the changes
want a write transaction."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args
from uuid import UUID

import msgspec
from sqlalchemy import ColumnElement, Connection, insert, or_, select, true, update

from headrace.access.audit import record
from headrace.access.errors import AccessError, AlreadyExists, NotFound
from headrace.access.limits import UNLIMITED, Limits
from headrace.access.names import checked_word
from headrace.access.revision import Change, begin_change
from headrace.access.tenant import ServiceClass, Tenant
from headrace.hints import did_you_mean
from headrace.store.ids import uuid7
from headrace.store.schema import aliases, pins, tenants

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,199}", re.ASCII)
HEAVIEST = 1000
MOST_COMPARED = 1000
"""Names that are compared with an unknown one, for the error's hint."""


def checked_name(name: str) -> str:
    """Itself, where a new tenant may have it. Tenants of older releases keep names that this
    refuses. Raises AccessError."""
    if not _NAME.fullmatch(name):
        raise AccessError(
            "a tenant's name is 1 to 200 letters, digits and . _ @ + -, and begins with a letter "
            "or a digit"
        )
    return name


def is_usual_name(name: str) -> bool:
    """Whether `checked_name` accepts it."""
    return _NAME.fullmatch(name) is not None


def find_tenant(connection: Connection, name: str) -> Tenant | None:
    return next(iter(_load(connection, tenants.c.name == name)), None)


def get_tenant(connection: Connection, name: str) -> Tenant:
    """Raises NotFound, which names the nearest one."""
    tenant = find_tenant(connection, name)
    if tenant is None:
        alike = select(tenants.c.name).where(tenants.c.name.startswith(name[:1], autoescape=True))
        names = connection.scalars(alike.limit(MOST_COMPARED))
        raise NotFound(f"there is no tenant {name!r}{did_you_mean(name, names)}")
    return tenant


def tenants_of(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Tenant]:
    """Those of these ids that there are, by their ids."""
    if not ids:
        return {}
    return {tenant.id: tenant for tenant in _load(connection, tenants.c.id.in_(ids))}


def list_tenants(
    connection: Connection, *, after: str | None = None, limit: int | None = None
) -> list[Tenant]:
    """All of them by name; or the first `limit` behind the name `after`."""
    behind = true() if after is None else tenants.c.name > after
    page = select(tenants.c.id).where(behind).order_by(tenants.c.name).limit(limit)
    return _load(connection, tenants.c.id.in_(page))


def create_tenant(
    connection: Connection,
    name: str,
    *,
    actor: str,
    service_class: ServiceClass = "default",
    weight: int = 1,
    limits: Limits = UNLIMITED,
    models: frozenset[str] | None = None,
) -> Tenant:
    """Raises:
    AlreadyExists: the name is taken.
    AccessError: an unusable name or value.
    """
    checked_name(name)
    begin_change(connection, Change("tenant", name))
    if find_tenant(connection, name) is not None:
        raise AlreadyExists(f"there is a tenant {name!r} already")
    tenant = _checked(
        Tenant(
            id=uuid7(),
            name=name,
            service_class=service_class,
            weight=weight,
            limits=limits,
            models=models,
            created_at=time.time_ns() // 1_000_000,
        )
    )
    identity = {"id": tenant.id, "name": name, "created_at": tenant.created_at}
    connection.execute(insert(tenants).values(identity | _columns(tenant)))
    record(connection, actor, "tenant.create", name, after=state_of(tenant))
    return get_tenant(connection, name)


def change_tenant(
    connection: Connection, name: str, change: Callable[[Tenant], Tenant], *, actor: str
) -> Tenant:
    """Put what `change` makes of the tenant in its place. It may change all but the identity,
    aliases and pins: `lambda tenant: replace(tenant, enabled=False)`.

    Raises:
        NotFound
        AccessError: an unusable value.
    """
    begin_change(connection, Change("tenant", name))
    before = get_tenant(connection, name)
    after = _checked(change(before))
    connection.execute(update(tenants).where(tenants.c.id == before.id).values(_columns(after)))
    states = {"before": state_of(before), "after": state_of(after)}
    record(connection, actor, "tenant.update", name, **states)
    return get_tenant(connection, name)


def ensure_tenant(connection: Connection, name: str, *, actor: str) -> Tenant:
    """The tenant of this name, made if there is none. Raises AccessError: an unusable name."""
    return find_tenant(connection, name) or create_tenant(connection, name, actor=actor)


def state_of(tenant: Tenant) -> dict[str, object]:
    """What can be changed of a tenant by `change_tenant`, as JSON may hold it."""
    return {
        "service_class": tenant.service_class,
        "weight": tenant.weight,
        "enabled": tenant.enabled,
        "limits": tenant.limits.given(),
        "models": None if tenant.models is None else sorted(tenant.models),
    }


def _load(connection: Connection, condition: ColumnElement[bool]) -> list[Tenant]:
    owners = select(tenants.c.id).where(condition).scalar_subquery()
    everybodys: dict[str, str] = {}
    own: defaultdict[UUID, dict[str, str]] = defaultdict(dict)
    its_or_everybodys = or_(aliases.c.tenant_id.is_(None), aliases.c.tenant_id.in_(owners))
    for row in connection.execute(select(aliases).where(its_or_everybodys)):
        names = everybodys if row.tenant_id is None else own[row.tenant_id]
        names[row.name] = row.target
    pinned: defaultdict[UUID, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(select(pins).where(pins.c.tenant_id.in_(owners))):
        pinned[row.tenant_id][row.model] = row.version
    rows = connection.execute(select(tenants).where(condition).order_by(tenants.c.name))
    return [
        _tenant(row._asdict(), everybodys | own.get(row.id, {}), pinned.get(row.id, {}))
        for row in rows
    ]


def _tenant(values: dict[str, Any], aliases: Mapping[str, str], pins: Mapping[str, str]) -> Tenant:
    models = None
    if values["models"] is not None:
        models = msgspec.json.decode(values["models"], type=frozenset[str])
    limits = Limits.of(msgspec.json.decode(values["limits"], type=dict[str, object]))
    decoded = {"limits": limits, "models": models, "aliases": aliases, "pins": pins}
    return Tenant(**{**values, **decoded})


def _columns(tenant: Tenant) -> dict[str, object]:
    state = state_of(tenant)
    encoded = {
        name: None if state[name] is None else msgspec.json.encode(state[name]).decode()
        for name in ("limits", "models")
    }
    return state | encoded


def _checked(tenant: Tenant) -> Tenant:
    if tenant.service_class not in get_args(ServiceClass):
        known = ", ".join(get_args(ServiceClass))
        raise AccessError(f"there is no class {tenant.service_class!r}; there are {known}")
    if not 1 <= tenant.weight <= HEAVIEST:
        raise AccessError(f"a weight is a whole number from 1 to {HEAVIEST}")
    if tenant.models is not None and not tenant.models:
        raise AccessError("name the models that it may use, or none for all; or disable the tenant")
    for model in tenant.models or ():
        checked_word("model's name", model)
    tenant.limits.checked()
    return tenant
