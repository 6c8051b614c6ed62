from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.dispatch.status import DispatchStatus, TenantStatus
from headrace.fleet.supervisor import WorkerStatus
from headrace.observe.few import MOST, OTHERS, Few
from headrace.observe.queues import queue_families
from tests.edge.fakes import MODEL, OTHER_KEY, World, error_of, until

CHAT = "/v1/chat/completions"
ADMIN_AUTH = {"authorization": "Bearer hr-admin_secret"}
TINY = {"model": MODEL, "version": "v1"}
Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running


async def numbers(world: World, **headers: str) -> Numbers:
    world.http.headers.pop("authorization", None)
    response = await world.http.get("/metrics", headers=headers)
    world.http.headers["authorization"] = "Bearer hr-test_secret"
    assert response.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def of(found: Numbers, name: str, **labels: str) -> float:
    return found[f"headrace_{name}", frozenset(labels.items())]


async def test_requests_tokens_and_times_are_counted(world: World) -> None:
    world.say("hello")
    assert (await world.chat()).status_code == 200
    assert (await world.chat(stream=True)).status_code == 200
    assert (await world.chat(model="nope")).status_code == 404
    assert (await world.chat(n=0)).status_code == 400
    assert (await world.http.get("/no/such/path")).status_code == 404
    found = await numbers(world)
    assert of(found, "requests_total", endpoint=CHAT, model=MODEL, status="200") == 2
    assert of(found, "requests_total", endpoint=CHAT, model="", status="404") == 1
    assert of(found, "requests_total", endpoint=CHAT, model="", status="400") == 1
    assert of(found, "requests_total", endpoint="", model="", status="404") == 1
    assert of(found, "request_seconds_count", endpoint=CHAT, model=MODEL) == 2
    assert of(found, "time_to_first_token_seconds_count", model=MODEL) == 2
    assert of(found, "time_per_output_token_seconds_count", model=MODEL) == 2
    seconds = of(found, "request_seconds_sum", endpoint=CHAT, model=MODEL)
    assert 0 < of(found, "time_to_first_token_seconds_sum", model=MODEL) < seconds
    assert of(found, "completion_tokens_total", model=MODEL) == 2 * len("hello!")
    prompts = [counts["prompt_tokens"] for counts in world.books.closed.values()]
    assert of(found, "prompt_tokens_total", model=MODEL) == sum(prompts)
    assert of(found, "requests_in_flight") == 1  # the one that asks


async def test_what_runs_and_what_the_engine_says(world: World) -> None:
    world.supervisor.paused = True
    asking = asyncio.create_task(world.chat())
    while not world.supervisor.live:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    found = await numbers(world)
    assert of(found, "requests_in_flight") == 2
    assert of(found, "worker_up", **TINY) == 1
    assert of(found, "worker_starts_total", **TINY) == 1
    status = world.supervisor.engine.status()
    states = ("free", "cached", "owned")
    blocks = sum(of(found, "engine_blocks", **TINY, state=state) for state in states)
    assert blocks == status.blocks_total
    world.supervisor.paused = False
    await asking
    await world.idle()
    found = await numbers(world)
    assert of(found, "engine_generated_tokens_total", **TINY) > 0
    assert of(found, "engine_sequences_running", **TINY) == 0
    assert of(found, "ledger_backlog") == 0


async def test_who_waits_how_long_and_who_is_turned_away() -> None:
    async with World(max_sequences=1, max_queue=2) as world:
        world.supervisor.paused = True
        other = {"authorization": f"Bearer {OTHER_KEY}"}
        body = {"model": MODEL, "prompt": "a", "max_tokens": 1}
        asking = [asyncio.create_task(world.complete(max_tokens=1))]
        await until(lambda: world.supervisor.live == 1)
        post = world.http.post
        asking += [
            asyncio.create_task(post("/v1/completions", json=body, headers=other)) for _ in range(2)
        ]
        await until(lambda: world.dispatcher.status().queued == 2)
        await asyncio.sleep(0.01)
        error_of(await post("/v1/completions", json=body, headers=other), 529)
        found = await numbers(world)
        acme = {**TINY, "class": "default", "tenant": "acme"}
        other_tenant = {**TINY, "class": "default", "tenant": "other"}
        assert of(found, "running_requests", **acme) == 1
        assert of(found, "queue_requests", **acme) == 0
        assert of(found, "queue_requests", **other_tenant) == 2
        assert of(found, "queue_oldest_seconds", **other_tenant) > 0.01
        sheds = {**TINY, "class": "default", "reason": "queue_full"}
        assert of(found, "sheds_total", **sheds) == 1
        assert of(found, "model_state", **TINY, state="ready") == 1
        world.supervisor.paused = False
        await asyncio.gather(*asking)


async def test_what_was_reserved_against_what_was_used(world: World) -> None:
    world.say("hello")
    world.keys.limit(requests_per_minute=3, output_tokens_per_minute=100, concurrent_requests=1)
    world.supervisor.paused = True
    asking = asyncio.create_task(world.complete(max_tokens=20))
    await until(lambda: world.supervisor.live == 1)
    output = {"tenant": "acme", "limit": "output_tokens_per_minute"}
    found = await numbers(world)
    assert of(found, "quota_held", **output) == 20
    error_of(await world.complete(max_tokens=20), 429)
    world.supervisor.paused = False
    await asking
    found = await numbers(world)
    assert of(found, "quota_held", **output) == 0
    assert of(found, "quota_reserved_total", **output) == 20
    assert of(found, "quota_used_total", **output) == len("hello!")
    assert of(found, "quota_refusals_total", limit="concurrent_requests", subject="tenant") == 1
    assert of(found, "quota_alone") == 0


def test_tenants_are_few_whoever_comes() -> None:
    tenants = tuple(
        TenantStatus(
            tenant=UUID(int=n), service_class="batch", queued=n, running=1, oldest=float(n)
        )
        for n in range(1000)
    )
    worker = WorkerStatus("ready", None, 1, 0, None)
    status = DispatchStatus(queued=0, running=0, draining=False, worker=worker, tenants=tenants)
    queued, oldest, *_ = queue_families([("tiny", "v1", status)], str)
    assert len(queued.samples) == MOST + 1
    assert sum(sample.value for sample in queued.samples) == sum(range(1000))
    others = [sample for sample in oldest.samples if sample.labels["tenant"] == OTHERS]
    assert others[0].value == 1000 - MOST - 1
    few = Few(2)
    assert [few.label(name) for name in "abcab"] == ["a", "b", OTHERS, "a", "b"]


async def test_a_service_without_an_engine_still_tells_its_numbers(world: World) -> None:
    world.supervisor.capacity = 0
    found = await numbers(world)
    assert of(found, "worker_up", **TINY) == 0
    assert not any(name == "headrace_engine_steps_total" for name, _ in found)


async def test_whatever_callers_send_labels_stay_few(world: World) -> None:
    for number in range(30):
        await world.http.get(f"/v1/models/{number}")
        await world.http.get(f"/{number}")
        await world.chat(model=str(number))
        await world.http.request(f"M{number}", "/v1/models")
    found = await numbers(world)
    assert len([name for name, _ in found if name == "headrace_requests_total"]) <= 6


async def test_neither_keys_nor_prompts_are_told(world: World) -> None:
    world.say("a secret answer")
    await world.chat(messages=[{"role": "user", "content": "a secret prompt"}])
    text = (await world.http.get("/metrics")).text
    assert "secret" not in text


async def test_metrics_can_be_for_admins_alone() -> None:
    async with World(open_metrics=False) as world:
        assert error_of(await world.http.get("/metrics"), 403)["code"] == "permission_denied"
        assert (await world.http.get("/metrics", headers=ADMIN_AUTH)).status_code == 200
        del world.http.headers["authorization"]
        error_of(await world.http.get("/metrics"), 401)


async def test_both_formats_of_prometheus(world: World) -> None:
    plain = await world.http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    modern = await world.http.get("/metrics", headers=accept)
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")
