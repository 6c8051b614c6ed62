from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.edge.fakes import MODEL, World, error_of

CHAT = "/v1/chat/completions"
ADMIN_AUTH = {"authorization": "Bearer hr-admin_secret"}
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
    assert of(found, "worker_up", model=MODEL) == 1
    assert of(found, "worker_starts_total", model=MODEL) == 1
    status = world.supervisor.engine.status()
    states = ("free", "cached", "owned")
    blocks = sum(of(found, "engine_blocks", model=MODEL, state=state) for state in states)
    assert blocks == status.blocks_total
    world.supervisor.paused = False
    await asking
    await world.idle()
    found = await numbers(world)
    assert of(found, "engine_generated_tokens_total", model=MODEL) > 0
    assert of(found, "engine_sequences_running", model=MODEL) == 0
    assert of(found, "ledger_backlog") == 0


async def test_a_service_without_an_engine_still_tells_its_numbers(world: World) -> None:
    world.supervisor.capacity = 0
    found = await numbers(world)
    assert of(found, "worker_up", model=MODEL) == 0
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
