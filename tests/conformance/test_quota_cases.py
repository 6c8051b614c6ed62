"""Faults that users met in other servers, by their ids: limits, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.edge.fakes import World, error_of, until

BOTH = pytest.mark.parametrize("stream", [False, True])
GROUPS = ("requests", "tokens")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as world:
        world.say("ok")
        yield world
        await world.idle()


@BOTH
async def test_rl_01_the_third_of_two_a_minute_is_told_when_to_come_back(
    world: World, stream: bool
) -> None:
    """With a faster limit the wait is short enough to be taken at its word."""
    world.keys.limit(requests_per_minute=2)
    assert [(await world.chat(stream=stream)).status_code for _ in range(2)] == [200, 200]
    refused = await world.chat(stream=stream)
    assert error_of(refused, 429)["type"] == "requests"
    assert 0 < int(refused.headers["retry-after"]) <= 30
    world.keys.limit(requests_per_minute=60)  # one a second, of which two are used
    for _ in range(58):
        assert (await world.chat()).status_code == 200
    while (refused := await world.chat()).status_code == 200:  # as many as came back meanwhile
        pass
    await asyncio.sleep(int(refused.headers["retry-after-ms"]) / 1000)
    assert (await world.chat(stream=stream)).status_code == 200


@BOTH
async def test_rl_02_every_answer_tells_limits_and_what_was_used(
    world: World, stream: bool
) -> None:
    world.keys.limit(requests_per_minute=5, output_tokens_per_minute=1000)
    left = []
    for _ in range(6):
        response = await world.chat(stream=stream, max_tokens=10)
        for group in GROUPS:
            for what in ("limit", "remaining", "reset"):
                assert response.headers[f"x-ratelimit-{what}-{group}"]
        left.append(int(response.headers["x-ratelimit-remaining-requests"]))
    assert response.status_code == 429
    assert left == [4, 3, 2, 1, 0, 0]
    # What was reserved for tokens that did not come is back, those that came are used.
    used = 1000 - int(response.headers["x-ratelimit-remaining-tokens"])
    assert 5 * len("ok") <= used <= 5 * len("ok<") + 1


@BOTH
async def test_rl_04_what_never_fits_is_neither_run_nor_billed(world: World, stream: bool) -> None:
    world.keys.limit(input_tokens_per_minute=100)
    refused = await world.complete(prompt="a" * 200, stream=stream)
    error = error_of(refused, 429)
    assert "exceeds the limit of 100" in error["message"]
    assert refused.headers["x-should-retry"] == "false"
    assert not world.books.opened
    assert world.supervisor.steps == 0


@BOTH
async def test_quota_race_ten_at_once_never_overdraw_a_hundred_tokens(
    world: World, stream: bool
) -> None:
    world.keys.limit(output_tokens_per_minute=100)
    world.supervisor.paused = True
    asked = [
        asyncio.create_task(world.chat(max_tokens=30, stream=stream, ignore_eos=True))
        for _ in range(10)
    ]
    await until(lambda: sum(task.done() for task in asked) == 7)
    world.supervisor.paused = False
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 7
    generated = sum(counts["completion_tokens"] for counts in world.books.closed.values())
    assert generated <= 100


@BOTH
async def test_us_03_who_leaves_pays_for_what_was_generated(world: World, stream: bool) -> None:
    """Streaming or not, against the same limits."""
    world.keys.limit(output_tokens_per_minute=300)
    world.supervisor.pace = 0.002
    world.say("x" * 400, eos=False)
    async with world.listening() as url:
        http = world.http.__class__(base_url=url, headers=world.http.headers)
        body = {"model": "tiny", "prompt": "one two", "max_tokens": 300, "stream": stream}
        asking = asyncio.create_task(http.post("/v1/completions", json=body))
        await world.supervisor.reach(20)
        asking.cancel()
        await asyncio.wait({asking})
        await http.aclose()
        await world.idle()
    counts = world.books.last()
    assert counts["ending"] == "cancelled"
    assert counts["prompt_tokens"] == len("one two")
    assert 5 <= counts["completion_tokens"] < 300
    refused = await world.chat(temperature=99)
    left = int(refused.headers["x-ratelimit-remaining-output-tokens"])
    assert 0 < 300 - left <= counts["completion_tokens"]
