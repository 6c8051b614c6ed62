"""One HTTP exchange as its log line tells it, and the way to find it from anywhere inside."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field

from starlette.types import Scope

from headrace.api.openai.errors import ApiError
from headrace.edge.headers import Headers, header
from headrace.edge.wire import OPENAI, Wire, wire_of

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(slots=True)
class Exchange:
    """id: what x-request-id says. wire: how its API tells what stands beside answers. facts: what
    the log line will tell beside the usual; never a key, a prompt or an output. headers: what
    every answer will carry beside its own. arrived: by `time.perf_counter`. model: the served name
    that the request was routed to, if it was. status: of the answer, once its head is sent."""

    id: str
    wire: Wire = OPENAI
    arrived: float = field(default_factory=time.perf_counter)
    model: str = ""
    status: int | None = None
    facts: dict[str, object] = field(default_factory=dict)
    headers: Headers = field(default_factory=dict)

    def note(self, error: ApiError, **facts: object) -> None:
        """Have the log line tell of the error that it was answered with."""
        detail = error.detail
        self.facts["error"] = detail.code or detail.type
        if detail.param is not None:
            self.facts["param"] = detail.param
        self.facts.update(facts)


def new_request_id() -> str:
    return f"req_{secrets.token_hex(12)}"


def begin_exchange(scope: Scope) -> Exchange:
    """Give the request an exchange, under the caller's x-request-id if that is a decent one."""
    offered = header(scope, b"x-request-id") or ""
    accepted = offered if _ACCEPTABLE_ID.fullmatch(offered) else new_request_id()
    wire = wire_of(scope["path"], scope["headers"])
    exchange = scope["headrace"] = Exchange(accepted, wire, headers=wire.headers(accepted))
    return exchange


def exchange_of(scope: Scope) -> Exchange:
    found: Exchange = scope["headrace"]
    return found
