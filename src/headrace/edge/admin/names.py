"""Aliases and pins, administered."""

from __future__ import annotations

from dataclasses import asdict

from headrace.access.aliases import Alias, list_aliases, remove_alias, set_alias
from headrace.access.known import KnownModels
from headrace.access.pins import Pin, list_pins, remove_pin, set_pin
from headrace.api.admin.aliases import AliasList, AliasView
from headrace.api.admin.pins import PinList, PinView
from headrace.edge.admin.endpoint import Ask
from headrace.edge.admin.office import Office
from headrace.edge.admin.values import given


class Aliases:
    def __init__(self, office: Office, known: KnownModels) -> None:
        self._office = office
        self._known = known

    async def list(self, ask: Ask) -> AliasList:
        tenant = given(ask.query.tenant)
        found = await self._office.report(ask.principal.key_id, lambda db: list_aliases(db, tenant))
        return AliasList(data=[_alias(alias) for alias in found])

    async def set(self, ask: Ask) -> AliasView:
        name, tenant, target = ask.path["name"], given(ask.query.tenant), ask.body.target
        return _alias(
            await self._office.change(
                lambda db: set_alias(
                    db, name, target, tenant=tenant, actor=ask.actor, known=self._known
                )
            )
        )

    async def remove(self, ask: Ask) -> AliasView:
        """Answers what was."""
        name, tenant = ask.path["name"], given(ask.query.tenant)
        return _alias(
            await self._office.change(
                lambda db: remove_alias(db, name, tenant=tenant, actor=ask.actor)
            )
        )


class Pins:
    def __init__(self, office: Office, known: KnownModels) -> None:
        self._office = office
        self._known = known

    async def list(self, ask: Ask) -> PinList:
        tenant = given(ask.query.tenant)
        found = await self._office.report(ask.principal.key_id, lambda db: list_pins(db, tenant))
        return PinList(data=[_pin(pin) for pin in found])

    async def set(self, ask: Ask) -> PinView:
        model, tenant, version = ask.path["model"], ask.query.tenant, ask.body.version
        return _pin(
            await self._office.change(
                lambda db: set_pin(db, tenant, model, version, actor=ask.actor, known=self._known)
            )
        )

    async def remove(self, ask: Ask) -> PinView:
        """Answers what was."""
        model, tenant = ask.path["model"], ask.query.tenant
        return _pin(
            await self._office.change(lambda db: remove_pin(db, tenant, model, actor=ask.actor))
        )


def _alias(alias: Alias) -> AliasView:
    return AliasView(**asdict(alias))


def _pin(pin: Pin) -> PinView:
    return PinView(**asdict(pin))
