"""What the administration API can be asked: its routes and its OpenAPI document come from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.api.admin.aliases import AliasBody, AliasList, AliasView, OwnerQuery
from headrace.api.admin.audit import AuditPage, AuditQuery
from headrace.api.admin.keys import (
    KeyBody,
    KeyChange,
    KeyPage,
    KeysQuery,
    KeyView,
    Rotation,
    ShownKey,
)
from headrace.api.admin.models import HostedModelList, ModelView, Unload
from headrace.api.admin.pages import PageQuery
from headrace.api.admin.pins import PinBody, PinList, PinQuery, PinView
from headrace.api.admin.prices import PriceBody, PriceList, PricesQuery, PriceView
from headrace.api.admin.service import ServiceView
from headrace.api.admin.tenants import TenantBody, TenantChange, TenantPage, TenantView
from headrace.api.admin.usage import UsageList, UsageQuery
from headrace.api.openai.operations import ALWAYS, refusals
from headrace.api.openapi import Answer, Body, Operation

ABOUT = """Administration, for keys with the scope admin. A change acts on the running service \
before it is answered. What rules of several fields or of the data refuse is a 400 too. Besides \
what is listed, any request may be answered 404 (no such path), 405 (`allow` says what is), 431 (a \
head of more than 64 KiB) or 500 (a fault of ours)."""

PREFIX = "/admin/v1"
FAULTS = (400, 401, 403, 413, 503)
"""A body or a parameter where there can't be one is a 400 too."""


def _operation(
    id: str,
    method: str,
    path: str,
    about: str,
    answer: Any,
    *refused: int,
    query: type[msgspec.Struct] | None = None,
    body: type[msgspec.Struct] | None = None,
    status: int = 200,
) -> Operation:
    return Operation(
        id=id,
        method=method,
        path=PREFIX + path,
        about=about,
        query=query,
        body=None if body is None else Body(struct=body, null_is_absent=method != "PATCH"),
        answers={
            status: Answer(about="Done.", body=answer, headers=ALWAYS),
            **refusals(*sorted({*refused, *FAULTS})),
        },
    )


OPERATIONS: Sequence[Operation] = (
    _operation("listTenants", "GET", "/tenants", "By name", TenantPage, query=PageQuery),
    _operation(
        "createTenant", "POST", "/tenants", "Make one", TenantView, 409, body=TenantBody, status=201
    ),
    _operation("showTenant", "GET", "/tenants/{name}", "By its name", TenantView, 404),
    _operation(
        "changeTenant",
        "PATCH",
        "/tenants/{name}",
        "Change or disable it",
        TenantView,
        404,
        409,
        body=TenantChange,
    ),
    _operation("listKeys", "GET", "/keys", "The oldest first", KeyPage, 404, query=KeysQuery),
    _operation("createKey", "POST", "/keys", "Make one", ShownKey, 404, body=KeyBody, status=201),
    _operation("showKey", "GET", "/keys/{id}", "By its public part", KeyView, 404),
    _operation("changeKey", "PATCH", "/keys/{id}", "Its limits", KeyView, 404, body=KeyChange),
    _operation(
        "rotateKey",
        "POST",
        "/keys/{id}/rotate",
        "Give it another secret; the old one lives on for a while",
        ShownKey,
        404,
        body=Rotation,
    ),
    _operation("revokeKey", "POST", "/keys/{id}/revoke", "End it for good", KeyView, 404),
    _operation(
        "listAliases", "GET", "/aliases", "All, or a tenant's", AliasList, 429, query=OwnerQuery
    ),
    _operation(
        "setAlias",
        "PUT",
        "/aliases/{name}",
        "Let a name stand for a model from now on",
        AliasView,
        404,
        query=OwnerQuery,
        body=AliasBody,
    ),
    _operation(
        "removeAlias", "DELETE", "/aliases/{name}", "Remove", AliasView, 404, query=OwnerQuery
    ),
    _operation("listPins", "GET", "/pins", "All, or a tenant's", PinList, 429, query=OwnerQuery),
    _operation(
        "setPin",
        "PUT",
        "/pins/{model}",
        "Let a tenant stay with a version",
        PinView,
        404,
        query=PinQuery,
        body=PinBody,
    ),
    _operation("removePin", "DELETE", "/pins/{model}", "Remove", PinView, 404, query=PinQuery),
    _operation("listPrices", "GET", "/prices", "All versions", PriceList, 429, query=PricesQuery),
    _operation(
        "setPrice",
        "POST",
        "/prices",
        "Another version of a model's price",
        PriceView,
        body=PriceBody,
        status=201,
    ),
    _operation("listHostedModels", "GET", "/models", "In memory or not", HostedModelList),
    _operation(
        "loadModel", "POST", "/models/{name}/load", "Have it in memory", ModelView, 404, 529
    ),
    _operation(
        "unloadModel",
        "POST",
        "/models/{name}/unload",
        "Free its memory, when what runs has finished",
        ModelView,
        404,
        body=Unload,
    ),
    _operation("listAudit", "GET", "/audit", "Who changed what", AuditPage, 429, query=AuditQuery),
    _operation("sumUsage", "GET", "/usage", "What was used", UsageList, 429, query=UsageQuery),
    _operation("showService", "GET", "/status", "How the service is", ServiceView),
    _operation("drain", "POST", "/drain", "Admit nothing new", ServiceView),
    _operation("undrain", "DELETE", "/drain", "Admit again", ServiceView),
    _operation("showAdminDocument", "GET", "/openapi.json", "This document", dict[str, Any]),
)
