"""Aliases in the database. Every function works inside the caller's transaction; the changes want
a write transaction. tenant: its name, or None for everybody."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update

from headrace.access.audit import record
from headrace.access.errors import AccessError, NotFound
from headrace.access.known import KnownModels, check_target
from headrace.access.names import checked_target, checked_word
from headrace.access.revision import EVERYTHING, Change, begin_change
from headrace.access.tenants import get_tenant
from headrace.store.ids import uuid7
from headrace.store.schema import aliases, tenants


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Another name for what the model of a request may say; it holds for a tenant, or for
    everybody if that is None."""

    tenant: str | None
    name: str
    target: str


def list_aliases(connection: Connection, tenant: str | None = None) -> list[Alias]:
    """All, or a tenant's own; everybody's first."""
    columns = tenants.c.name.label("tenant"), aliases.c.name, aliases.c.target
    query = select(*columns).select_from(aliases.outerjoin(tenants))
    query = query.order_by(tenants.c.name.is_not(None), tenants.c.name, aliases.c.name)
    if tenant is not None:
        query = query.where(tenants.c.name == tenant)
    return [Alias(**row._mapping) for row in connection.execute(query)]


def set_alias(
    connection: Connection,
    name: str,
    target: str,
    *,
    tenant: str | None = None,
    actor: str,
    known: KnownModels | None = None,
) -> Alias:
    """Make the name stand for the target from now on, whatever it stood for.

    known: the models that a target must be one of; None: whatever the target is.

    Raises:
        NotFound: there is no such tenant.
        AccessError: an unusable name or target, a target that means nothing, or a circle.
    """
    begin_change(connection, _concerned(tenant))
    alias = Alias(tenant=tenant, name=checked_word("name", name), target=checked_target(target))
    if name == target:
        raise AccessError("an alias cannot stand for itself")
    owner = _owner(connection, tenant)
    _check_way(connection, owner, name, target, known)
    before = _target(connection, owner, name)
    if before is None:
        values = {"id": uuid7(), "tenant_id": owner, "name": name, "target": target}
        connection.execute(insert(aliases).values(values))
    else:
        connection.execute(update(aliases).where(*_is(owner, name)).values(target=target))
    _record(connection, actor, "alias.set", tenant, name, before, target)
    return alias


def remove_alias(
    connection: Connection, name: str, *, tenant: str | None = None, actor: str
) -> Alias:
    """The alias that was. Raises NotFound: there is none, or no such tenant."""
    begin_change(connection, _concerned(tenant))
    owner = _owner(connection, tenant)
    target = _target(connection, owner, name)
    if target is None:
        raise NotFound(f"there is no alias {name!r} of {tenant or 'everybody'}")
    connection.execute(delete(aliases).where(*_is(owner, name)))
    _record(connection, actor, "alias.remove", tenant, name, target, None)
    return Alias(tenant=tenant, name=name, target=target)


def _check_way(
    connection: Connection,
    owner: UUID | None,
    name: str,
    target: str,
    known: KnownModels | None,
) -> None:
    """Raises AccessError for a target that means nothing, and for a circle, of whichever tenant
    that would see it."""
    everybodys: dict[str, str] = {}
    owned: defaultdict[UUID, dict[str, str]] = defaultdict(dict)
    everything = select(aliases.c.tenant_id, aliases.c.name, aliases.c.target)
    if owner is not None:
        everything = everything.where(
            or_(aliases.c.tenant_id.is_(None), aliases.c.tenant_id == owner)
        )
    for whose, alias, stands_for in connection.execute(everything):
        (everybodys if whose is None else owned[whose])[alias] = stands_for
    (everybodys if owner is None else owned[owner])[name] = target
    if known is not None:
        check_target(known, target, everybodys.keys() | (owned[owner].keys() if owner else set()))
    for own in owned.values() or [{}]:
        way = [name]
        while (step := own.get(way[-1], everybodys.get(way[-1]))) is not None:
            if step in way:
                raise AccessError(f"the alias leads back to itself: {' -> '.join([*way, step])}")
            way.append(step)


def _concerned(tenant: str | None) -> Change:
    return EVERYTHING if tenant is None else Change("tenant", tenant)


def _owner(connection: Connection, tenant: str | None) -> UUID | None:
    return None if tenant is None else get_tenant(connection, tenant).id


def _is(owner: UUID | None, name: str) -> tuple[ColumnElement[bool], ...]:
    return aliases.c.tenant_id.is_not_distinct_from(owner), aliases.c.name == name


def _target(connection: Connection, owner: UUID | None, name: str) -> str | None:
    query = select(aliases.c.target).where(*_is(owner, name))
    return connection.scalars(query).one_or_none()


def _record(
    connection: Connection,
    actor: str,
    action: str,
    tenant: str | None,
    name: str,
    before: str | None,
    after: str | None,
) -> None:
    states = [target and {"tenant": tenant, "target": target} for target in (before, after)]
    record(connection, actor, action, name, before=states[0] or None, after=states[1] or None)
