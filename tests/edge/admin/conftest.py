"""An edge with a real registry behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from headrace.access.authenticator import Authenticator
from headrace.access.changes import Changes
from headrace.access.key import Key
from headrace.access.keys import create_key
from headrace.access.principal import SCOPES
from headrace.edge.admin.office import Office
from headrace.store.database import Database
from tests.edge.fakes import World

PEPPER = b"p" * 32
ROOT = Key("boot", "secret")


class Headquarters:
    """A world that is administered, by the holder of `ROOT`."""

    def __init__(self, world: World, changes: Changes) -> None:
        self.world = world
        self.changes = changes
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(world.app),
            base_url="http://edge/admin/v1",
            headers={"authorization": f"Bearer {ROOT.text}"},
        )

    async def ask(self, method: str, path: str, status: int = 200, **fields: Any) -> Any:
        """The answer's body. fields: of the request's, or its `query`."""
        query = fields.pop("query", None)
        response = await self.http.request(method, path, json=fields or None, params=query)
        assert response.status_code == status, response.text
        return response.json()

    async def new_key(self, tenant: str = "acme", **fields: Any) -> Any:
        return await self.ask("POST", "/keys", 201, tenant=tenant, **fields)

    async def models_status(self, key: str) -> int:
        """What a key is answered when it is used."""
        headers = {"authorization": f"Bearer {key}"}
        return (await self.world.http.get("/v1/models", headers=headers)).status_code


@asynccontextmanager
async def headquarters_of(db: Database, pepper: bytes = PEPPER) -> AsyncIterator[Headquarters]:
    changes = Changes(db)
    keys = Authenticator(db, pepper, changes)
    await changes.start()
    office = Office(db, changes, pepper)
    async with World(keys=keys, office=office) as world:
        found = Headquarters(world, changes)
        yield found
        await found.http.aclose()
        await world.idle()
    await changes.stop()


def make_root(db: Database) -> None:
    with db.transaction(write=True) as connection:
        create_key(connection, ROOT, PEPPER, tenant="root", scopes=SCOPES, actor="bootstrap")


@pytest.fixture
async def hq(sqlite: Database) -> AsyncIterator[Headquarters]:
    make_root(sqlite)
    async with headquarters_of(sqlite) as found:
        yield found


@pytest.fixture
async def either_hq(database: Database) -> AsyncIterator[Headquarters]:
    """On SQLite and on PostgreSQL."""
    make_root(database)
    async with headquarters_of(database) as found:
        yield found
