"""The routes of the administration API, from its operations."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any

from starlette.routing import Route

from headrace import __version__
from headrace.api.admin.operations import ABOUT, OPERATIONS
from headrace.api.openai.operations import HEADERS
from headrace.api.openapi import make_document
from headrace.edge.admin.endpoint import Act, AdminEndpoint, Ask, Method
from headrace.edge.admin.keys import Keys
from headrace.edge.admin.known import ServedModels
from headrace.edge.admin.models import HostedModels
from headrace.edge.admin.names import Aliases, Pins
from headrace.edge.admin.office import Office
from headrace.edge.admin.prices import Prices
from headrace.edge.admin.records import Records
from headrace.edge.admin.service import Service
from headrace.edge.admin.tenants import Tenants
from headrace.edge.services import Services


def admin_routes(services: Services, office: Office) -> list[Route]:
    """One for each path, so that a wrong method is told all the right ones. Names may have slashes
    in them, so longer paths come first."""
    acts = _acts(services, office)
    methods: defaultdict[str, dict[str, Method]] = defaultdict(dict)
    for operation in OPERATIONS:
        methods[operation.path][operation.method] = Method(operation, acts[operation.id])
    return [
        Route(
            re.sub(r"{(\w+)}", r"{\1:path}", path),
            AdminEndpoint(services.keys, methods[path]),
            methods=list(methods[path]),
        )
        for path in sorted(methods, key=lambda path: -path.count("/"))
    ]


@cache
def admin_document() -> dict[str, Any]:
    return make_document("Headrace administration", ABOUT, __version__, OPERATIONS, HEADERS)


def _acts(services: Services, office: Office) -> Mapping[str, Act]:
    tenants, keys, records = Tenants(office), Keys(office), Records(office)
    known = ServedModels(services.models, office.installed)
    aliases, pins, prices = Aliases(office, known), Pins(office, known), Prices(office, known)
    models, service = HostedModels(services.models), Service(services)

    async def show_document(ask: Ask) -> object:
        return admin_document()

    return {
        "listTenants": tenants.list,
        "createTenant": tenants.create,
        "showTenant": tenants.show,
        "changeTenant": tenants.change,
        "listKeys": keys.list,
        "createKey": keys.create,
        "showKey": keys.show,
        "changeKey": keys.change,
        "rotateKey": keys.rotate,
        "revokeKey": keys.revoke,
        "listAliases": aliases.list,
        "setAlias": aliases.set,
        "removeAlias": aliases.remove,
        "listPins": pins.list,
        "setPin": pins.set,
        "removePin": pins.remove,
        "listPrices": prices.list,
        "setPrice": prices.set,
        "listHostedModels": models.list,
        "loadModel": models.load,
        "unloadModel": models.unload,
        "listAudit": records.audit,
        "sumUsage": records.usage,
        "showService": service.show,
        "drain": service.drain,
        "undrain": service.undrain,
        "showAdminDocument": show_document,
    }
