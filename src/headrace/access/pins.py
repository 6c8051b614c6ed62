"""Pins in the database. Every function works inside the caller's transaction; the changes want a
write transaction."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, delete, insert, select, update

from headrace.access.audit import record
from headrace.access.errors import NotFound
from headrace.access.known import KnownModels, check_version
from headrace.access.names import checked_word
from headrace.access.revision import Change, begin_change
from headrace.access.tenants import get_tenant
from headrace.store.schema import pins, tenants


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A tenant stays with this version of a model. tenant: its name."""

    tenant: str
    model: str
    version: str


def list_pins(connection: Connection, tenant: str | None = None) -> list[Pin]:
    """All, or a tenant's."""
    columns = tenants.c.name.label("tenant"), pins.c.model, pins.c.version
    query = select(*columns).select_from(pins.join(tenants))
    if tenant is not None:
        query = query.where(tenants.c.name == tenant)
    rows = connection.execute(query.order_by(tenants.c.name, pins.c.model))
    return [Pin(**row._mapping) for row in rows]


def set_pin(
    connection: Connection,
    tenant: str,
    model: str,
    version: str,
    *,
    actor: str,
    known: KnownModels | None = None,
) -> Pin:
    """Make the tenant stay with the version, whichever it stayed with.

    known: the models and versions that there are; None: whatever they are.

    Raises:
        NotFound: there is no such tenant.
        AccessError: an unusable name or version, or one that does not exist.
    """
    begin_change(connection, Change("tenant", tenant))
    checked_word("model's name", model)
    checked_word("version", version)
    if known is not None:
        check_version(known, model, version)
    owner = get_tenant(connection, tenant)
    before = owner.pins.get(model)
    if before is None:
        values = {"tenant_id": owner.id, "model": model, "version": version}
        connection.execute(insert(pins).values(values))
    else:
        pinned = pins.c.tenant_id == owner.id, pins.c.model == model
        connection.execute(update(pins).where(*pinned).values(version=version))
    _record(connection, actor, "pin.set", tenant, model, before, version)
    return Pin(tenant=tenant, model=model, version=version)


def remove_pin(connection: Connection, tenant: str, model: str, *, actor: str) -> Pin:
    """The pin that was. Raises NotFound: there is none, or no such tenant."""
    begin_change(connection, Change("tenant", tenant))
    owner = get_tenant(connection, tenant)
    version = owner.pins.get(model)
    if version is None:
        raise NotFound(f"{tenant} has no pin for {model!r}")
    _delete(connection, owner.id, model)
    _record(connection, actor, "pin.remove", tenant, model, version, None)
    return Pin(tenant=tenant, model=model, version=version)


def _delete(connection: Connection, owner: UUID, model: str) -> None:
    connection.execute(delete(pins).where(pins.c.tenant_id == owner, pins.c.model == model))


def _record(
    connection: Connection,
    actor: str,
    action: str,
    tenant: str,
    model: str,
    before: str | None,
    after: str | None,
) -> None:
    states = [version and {"tenant": tenant, "version": version} for version in (before, after)]
    record(connection, actor, action, model, before=states[0] or None, after=states[1] or None)
