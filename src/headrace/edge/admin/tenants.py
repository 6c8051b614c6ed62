"""Tenants, administered."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from msgspec import UNSET

from headrace.access.limits import UNLIMITED
from headrace.access.tenant import Tenant
from headrace.access.tenants import change_tenant, create_tenant, get_tenant, list_tenants
from headrace.api.admin.pages import PageQuery
from headrace.api.admin.tenants import TenantBody, TenantChange, TenantPage, TenantView
from headrace.api.openai.errors import conflict
from headrace.edge.admin.endpoint import Ask
from headrace.edge.admin.office import Office
from headrace.edge.admin.values import changed, cursors, given, limits_view


class Tenants:
    def __init__(self, office: Office) -> None:
        self._office = office

    async def list(self, ask: Ask) -> TenantPage:
        query: PageQuery = ask.query
        found = await self._office.look(
            lambda db: list_tenants(db, after=given(query.after), limit=query.limit + 1)
        )
        data = [_view(tenant) for tenant in found[: query.limit]]
        return TenantPage(data=data, **cursors([tenant.name for tenant in found], query.limit))

    async def create(self, ask: Ask) -> TenantView:
        body: TenantBody = ask.body
        limits = changed(UNLIMITED, body.limits)
        tenant = await self._office.change(
            lambda db: create_tenant(
                db,
                body.name,
                actor=ask.actor,
                service_class=body.service_class,
                weight=body.weight,
                limits=limits,
                models=None if body.models is None else frozenset(body.models),
            )
        )
        return _view(tenant)

    async def show(self, ask: Ask) -> TenantView:
        return _view(await self._office.look(lambda db: get_tenant(db, ask.path["name"])))

    async def change(self, ask: Ask) -> TenantView:
        name, body = ask.path["name"], ask.body
        if body.enabled is False and name == ask.principal.tenant.name:
            raise conflict("A key can't disable its own tenant.")
        tenant = await self._office.change(
            lambda db: change_tenant(db, name, lambda old: _changed(old, body), actor=ask.actor)
        )
        return _view(tenant)


def _changed(tenant: Tenant, change: TenantChange) -> Tenant:
    values = {name: v for name, v in msgspec.structs.asdict(change).items() if v is not UNSET}
    if change.limits is not UNSET:
        values["limits"] = changed(tenant.limits, change.limits)
    if values.get("models") is not None:
        values["models"] = frozenset(values["models"])
    return replace(tenant, **values)


def _view(tenant: Tenant) -> TenantView:
    return TenantView(
        id=str(tenant.id),
        name=tenant.name,
        service_class=tenant.service_class,
        weight=tenant.weight,
        enabled=tenant.enabled,
        limits=limits_view(tenant.limits),
        models=None if tenant.models is None else sorted(tenant.models),
        aliases=dict(tenant.aliases),
        pins=dict(tenant.pins),
        created_at=tenant.created_at // 1000,
    )
