"""Tenants: whom the service works for."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace.api.admin.fields import NewName, ServiceClass, Weight, Word
from headrace.api.admin.limits import LimitsChange, LimitsView
from headrace.api.admin.pages import Page

Models = Annotated[list[Word], Meta(min_length=1, max_length=1000)]


class TenantBody(msgspec.Struct, frozen=True, kw_only=True):
    """models: names of those it may use; all without."""

    name: NewName
    service_class: ServiceClass = "default"
    weight: Weight = 1
    limits: LimitsChange = LimitsChange()
    models: Models | None = None


class TenantChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays as it is. enabled false turns all its requests away. models null:
    all."""

    service_class: ServiceClass | UnsetType = UNSET
    weight: Weight | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    limits: LimitsChange | UnsetType = UNSET
    models: Models | UnsetType | None = UNSET


class TenantView(msgspec.Struct, frozen=True, kw_only=True):
    """aliases: its own and everybody's. pins: versions by the names of models. created_at: unix
    seconds."""

    id: str
    object: Literal["tenant"] = "tenant"
    name: str
    service_class: ServiceClass
    weight: int
    enabled: bool
    limits: LimitsView
    models: list[str] | None
    aliases: dict[str, str]
    pins: dict[str, str]
    created_at: int


class TenantPage(Page, frozen=True, kw_only=True):
    data: list[TenantView]
