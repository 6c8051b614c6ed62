"""Who may administer, and how quickly what they do holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from headrace.api.admin.operations import OPERATIONS
from headrace.edge.health import ENDED
from headrace.store.database import Database
from tests.edge.admin.conftest import Headquarters, headquarters_of, make_root
from tests.edge.fakes import MODEL


async def test_only_admins_and_before_anything_is_read(hq: Headquarters) -> None:
    await hq.ask("POST", "/tenants", 201, name="acme")
    key = (await hq.new_key())["key"]

    async def unread() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read before the key was known")
        yield b""

    for operation in OPERATIONS:
        path = operation.path.removeprefix("/admin/v1")
        for authorization, status in ((f"Bearer {key}", 403), ("Bearer hr-no_key", 401), ("", 401)):
            headers = {"authorization": authorization}
            response = await hq.http.request(
                operation.method, path, content=unread(), headers=headers
            )
            assert response.status_code == status, operation.id
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}


async def test_an_admin_key_without_inference_generates_nothing(hq: Headquarters) -> None:
    await hq.ask("POST", "/tenants", 201, name="acme")
    key = (await hq.new_key(scopes=["admin"]))["key"]
    assert await hq.models_status(key) == 403
    await hq.ask("GET", "/tenants")


async def test_ky_01_a_revoked_key_opens_nothing_anywhere(database: Database) -> None:
    make_root(database)
    async with headquarters_of(database) as one, headquarters_of(database) as two:
        await one.ask("POST", "/tenants", 201, name="acme")
        key = await one.new_key()
        assert [await hq.models_status(key["key"]) for hq in (one, two)] == [200, 200]
        await one.ask("POST", f"/keys/{key['id']}/revoke")
        revoked = time.monotonic()
        assert await one.models_status(key["key"]) == 401
        while await two.models_status(key["key"]) != 401:
            assert time.monotonic() - revoked < 5
            await asyncio.sleep(0.01)


async def test_drained_it_finishes_what_is_inside_and_lets_nothing_in(hq: Headquarters) -> None:
    world, supervisor = hq.world, hq.world.supervisor
    await hq.ask("POST", "/tenants", 201, name="acme")
    world.http.headers["authorization"] = f"Bearer {(await hq.new_key())['key']}"
    supervisor.paused = True
    running = asyncio.create_task(world.chat(max_tokens=3))
    while not supervisor.live:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    status = await hq.ask("POST", "/drain")
    assert (status["draining"], status["requests"]) == (True, 1)
    refused = await world.chat()
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    assert (await world.http.get("/readyz")).status_code == 503
    supervisor.paused = False
    assert (await running).status_code == 200
    assert (await hq.ask("GET", "/status"))["requests"] == 0
    await hq.ask("DELETE", "/drain")
    assert (await world.chat(model=MODEL, max_tokens=1)).status_code == 200
    assert (await world.http.get("/readyz")).status_code == 200


async def test_why_an_engine_ended_is_told_to_admins_and_not_by_readyz(hq: Headquarters) -> None:
    reason = "the next engine could not be started: no file /srv/models/secret.gguf"
    hq.world.supervisor.capacity = 0
    hq.world.supervisor.last_error = reason
    answer = await hq.world.http.get("/readyz", headers={"authorization": ""})
    assert (answer.status_code, answer.json()["reason"]) == (503, ENDED)
    assert "secret.gguf" not in answer.text
    (listed,) = (await hq.ask("GET", "/models"))["data"]
    assert listed["error"] == reason
    hq.world.supervisor.capacity = 8
    (listed,) = (await hq.ask("GET", "/models"))["data"]
    assert listed["error"] is None


async def test_models_come_and_go(hq: Headquarters) -> None:
    (listed,) = (await hq.ask("GET", "/models"))["data"]
    assert (listed["name"], listed["state"], listed["closed"]) == (MODEL, "ready", False)
    unloaded = await hq.ask("POST", f"/models/{MODEL}/unload", grace_seconds=1)
    assert (unloaded["state"], unloaded["closed"]) == ("unloaded", False)
    assert (await hq.ask("POST", f"/models/{MODEL}@v1/load"))["state"] == "ready"
    closed = await hq.ask("POST", f"/models/{MODEL}/unload", close=True)
    assert (closed["state"], closed["closed"]) == ("unloaded", True)
    assert (await hq.ask("POST", f"/models/{MODEL}/load"))["closed"] is False
    for name in ("nope", "tiny@v2"):
        error = (await hq.ask("POST", f"/models/{name}/load", 404))["error"]
        assert error["code"] == "not_found"
