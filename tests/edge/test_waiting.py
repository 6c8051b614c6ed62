"""Classes, deadlines and refusals as a caller meets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from headrace.access.principal import Principal
from tests.edge.fakes import ACME, AUTH, MODEL, World, error_of, events, until

BOTH = pytest.mark.parametrize("stream", [False, True])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World(max_sequences=1, max_queue=2) as running:
        yield running
        await running.idle()


async def ask(world: World, headers: dict[str, str], **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "prompt": "one two", **fields}
    return await world.http.post("/v1/completions", json=body, headers=AUTH | headers)


async def occupied(world: World) -> asyncio.Task[httpx.Response]:
    """Somebody has the only place for some time."""
    world.supervisor.pace = 0.005
    running = asyncio.create_task(world.complete(max_tokens=300, ignore_eos=True))
    await until(lambda: world.dispatcher.status().running == 1)
    return running


async def test_whoever_refuses_does_not_tokenise(world: World) -> None:
    running = await occupied(world)
    waiting = [asyncio.create_task(world.complete()) for _ in range(2)]
    await until(lambda: world.dispatcher.status().queued == 2)
    world.planner.completion = None  # type: ignore[assignment,method-assign]
    error_of(await world.complete(), 529)
    for task in (running, *waiting):
        task.cancel()


async def test_a_queued_request_that_is_cancelled_costs_nothing(world: World) -> None:
    running = await occupied(world)
    steps = world.supervisor.model.prompts.copy()
    waiting = asyncio.create_task(world.complete(prompt="never"))
    await until(lambda: world.dispatcher.status().queued == 1)
    waiting.cancel()
    await until(lambda: world.dispatcher.status().queued == 0)
    running.cancel()
    await world.idle()
    assert world.supervisor.model.prompts == steps, "it never reached the engine"
    assert world.books.last()["prompt_tokens"] == 0 or len(world.books.closed) == 2


async def test_deadlines_that_make_no_sense_are_400(world: World) -> None:
    error = error_of(await ask(world, {"x-headrace-deadline-ms": "soon"}), 400)
    assert error["param"] == "x-headrace-deadline-ms"


@BOTH
@pytest.mark.parametrize(("asked", "answered"), [("flex", "flex"), ("priority", "default")])
async def test_the_tier_that_was_used_is_told(
    world: World, stream: bool, asked: str, answered: str
) -> None:
    world.say("ok")
    response = await world.chat(service_tier=asked, stream=stream)
    if stream:
        assert {chunk["service_tier"] for chunk in events(response)} == {answered}
    else:
        assert response.json()["service_tier"] == answered


async def test_classes_reach_the_dispatcher(world: World) -> None:
    tenant = replace(ACME, service_class="interactive", weight=3)

    async def authenticate(raw_key: str) -> Principal:
        return Principal(tenant, "test", frozenset({"inference"}))

    world.services.keys.authenticate = authenticate  # type: ignore[method-assign]
    running = await occupied(world)
    flex = asyncio.create_task(world.complete(service_tier="flex"))
    await until(lambda: world.dispatcher.status().queued == 1)
    told = {status.service_class: status for status in world.dispatcher.status().tenants}
    assert (told["interactive"].running, told["batch"].queued) == (1, 1)
    for task in (running, flex):
        task.cancel()


async def test_requests_from_long_prompts_on_wait_in_their_lane() -> None:
    async with World(max_sequences=4, long_from=50) as world:
        world.supervisor.pace = 0.002
        asked = [
            asyncio.create_task(world.complete(prompt="x" * size, max_tokens=100))
            for size in (60, 60, 60, 49)
        ]
        await until(lambda: world.dispatcher.status().queued == 2)
        status = world.dispatcher.status()
        assert (status.running, status.long_running, status.long_places) == (2, 1, 1)
        assert [r.status_code for r in await asyncio.gather(*asked)] == [200] * 4
        await world.idle()
