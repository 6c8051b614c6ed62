"""This checkout, as `headrace serve` runs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

import headrace
from engines.engine import KEY, Engine
from headrace.load.client import Server
from headrace.load.workload import Workload


class Headrace(Engine):
    name = "headrace"
    health = "/readyz"

    def version(self) -> str:
        return headrace.__version__

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        program = Path(sys.executable).with_name("headrace")
        return [str(program), "serve", "--model", str(gguf), "--port", str(port)]

    def environment(self) -> dict[str, str]:
        return {"HEADRACE_BOOTSTRAP_KEY": KEY}


@dataclass(frozen=True, slots=True)
class WithTenants:
    """A running service. url: without /v1. keys: one of each tenant, in their order. process:
    serves HTTP; its child is the engine's. server: for an administrator's load."""

    url: str
    keys: list[str]
    process: psutil.Process
    server: Server


@contextmanager
def with_tenants(
    gguf: Path, names: Sequence[str], classes: Mapping[str, str] = {}
) -> Iterator[WithTenants]:
    """Start Headrace, and make a tenant and a key for each name. classes: of tenants that are not
    of the class "default", by name."""
    workload = Workload(title="", streams=1, requests=1, output=1)
    before = set(psutil.Process().children())
    with Headrace().serve(gguf, workload) as server:
        (process,) = set(psutil.Process().children()) - before
        url = server.url.removesuffix("/v1")
        headers = {"authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=f"{url}/admin/v1", headers=headers) as admin:
            keys = []
            for name in names:
                tenant = {"name": name, "service_class": classes.get(name, "default")}
                admin.post("/tenants", json=tenant).raise_for_status()
                made = admin.post("/keys", json={"tenant": name})
                keys.append(made.raise_for_status().json()["key"])
        yield WithTenants(url, keys, process, server)
