"""Aliases: other names for what `model` may say."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from headrace.api.admin.fields import Name, Target
from headrace.api.admin.pages import Listing


class OwnerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """tenant: whose it is; everybody's without."""

    tenant: Name | UnsetType = UNSET


class AliasBody(msgspec.Struct, frozen=True, kw_only=True):
    target: Target


class AliasView(msgspec.Struct, frozen=True, kw_only=True):
    """tenant: null if it is everybody's."""

    object: Literal["alias"] = "alias"
    tenant: str | None
    name: str
    target: str


class AliasList(Listing, frozen=True, kw_only=True):
    data: list[AliasView]
