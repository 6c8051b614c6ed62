"""Who is asking: the key of a request."""

from __future__ import annotations

from starlette.types import Scope

from headrace.access import principal as access
from headrace.access.errors import InvalidKey
from headrace.access.principal import SCOPES, Principal
from headrace.api.openai.errors import invalid_api_key, permission_denied
from headrace.edge.exchange import exchange_of
from headrace.edge.headers import header
from headrace.edge.services import Keys

INFERENCE, ADMIN = SCOPES

_REFUSALS = {
    INFERENCE: "This API key is not allowed to use models.",
    ADMIN: "This API key is not allowed to administer the service.",
}


async def authenticate(scope: Scope, keys: Keys, wanted: access.Scope = INFERENCE) -> Principal:
    """The principal of the request's key, which must have the wanted scope. Touches neither
    the body nor anything behind the edge. Raises ApiError (401, 403)."""
    key = _key(scope)
    if not key:
        raise invalid_api_key(
            "You didn't provide an API key. Send it in a header: 'Authorization: Bearer <key>'."
        )
    try:
        principal = await keys.authenticate(key)
    except InvalidKey:
        raise invalid_api_key("Incorrect API key provided.") from None
    exchange_of(scope).facts.update(tenant=principal.tenant.name, key_id=principal.key_id)
    if not principal.tenant.enabled:
        raise permission_denied("The tenant of this API key is disabled.")
    if wanted not in principal.scopes:
        raise permission_denied(_REFUSALS[wanted])
    return principal


def _key(scope: Scope) -> str:
    """Of the header `authorization`, or of Anthropic's where there is none; "" for none."""
    authorization = header(scope, b"authorization")
    if authorization is None:
        return (header(scope, b"x-api-key") or "").strip()
    scheme, _, key = authorization.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
