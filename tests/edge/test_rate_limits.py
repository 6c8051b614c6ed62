"""Limits over HTTP: what every answer tells of them, and what is turned away."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from headrace.access.limits import Limits
from headrace.access.price import NANO, Price, Rates
from tests.edge.fakes import MODEL, World, error_of, until

GROUPS = ("requests", "tokens", "input-tokens", "output-tokens")
RESET = re.compile(r"\d+ms|\d+s|\d+m\d+s")
PROMPT = len("<user>Say ok.</>") + 2
EVERYTHING: dict[str, Any] = {
    "requests_per_minute": 60,
    "input_tokens_per_minute": 1000,
    "output_tokens_per_minute": 500,
    "concurrent_requests": 2,
    "budget": 10 * NANO,
}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Clock:
    """Milliseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.moment = 0

    def __call__(self) -> int:
        return self.moment


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as world:
        world.counters.now = Clock()
        world.say("hello")
        yield world


def pass_time(world: World, milliseconds: int) -> None:
    assert isinstance(world.counters.now, Clock)
    world.counters.now.moment += milliseconds


def price(nano: int) -> Price:
    rates = Rates(input=nano, cached_input=nano, output=nano)
    return Price(id=uuid.UUID(int=1), model="tiny", version=1, valid_from=0, rates=rates)


def limits_of(response: httpx.Response, group: str) -> tuple[int, int, str]:
    limit, remaining, reset = (
        response.headers[f"x-ratelimit-{what}-{group}"] for what in ("limit", "remaining", "reset")
    )
    assert RESET.fullmatch(reset)
    return int(limit), int(remaining), reset


@BOTH
async def test_answers_tell_the_limits_and_what_is_left(world: World, stream: bool) -> None:
    world.keys.limit(**EVERYTHING)
    response = await world.chat(max_tokens=20, stream=stream)
    assert response.status_code == 200
    assert limits_of(response, "requests") == (60, 59, "1s")
    assert limits_of(response, "input-tokens") == (1000, 1000 - PROMPT, "2s")
    assert limits_of(response, "output-tokens") == (500, 480, "3s")
    assert limits_of(response, "tokens") == limits_of(response, "output-tokens")
    response = await world.chat(max_tokens=20, stream=stream)
    assert limits_of(response, "requests")[1] == 58
    assert limits_of(response, "output-tokens")[1] == 500 - len("hello") - 1 - 20


async def test_refusals_tell_them_too(world: World) -> None:
    world.keys.limit(**EVERYTHING | {"requests_per_minute": 2})
    answers = [
        await world.chat(temperature=99),
        await world.http.post("/v1/chat/completions", content=b"{"),
        await world.chat(model="other"),
        await world.chat(max_tokens=5),
        await world.chat(max_tokens=5),
        await world.chat(max_tokens=5),
    ]
    assert [answer.status_code for answer in answers] == [400, 400, 404, 200, 200, 429]
    assert [limits_of(answer, "requests")[1] for answer in answers] == [2, 2, 2, 1, 0, 0]
    for answer in answers:
        assert limits_of(answer, "tokens")[0] == 500


async def test_who_has_no_limits_is_told_none(world: World) -> None:
    for response in (await world.chat(), await world.chat(temperature=99)):
        assert not [name for name in response.headers if name.startswith("x-ratelimit")]


async def test_a_key_is_limited_beside_its_tenant(world: World) -> None:
    world.keys.limit(requests_per_minute=10)
    world.keys.limits = Limits(requests_per_minute=1)
    assert limits_of(await world.chat(), "requests") == (1, 0, "1m0s")
    error = error_of(await world.chat(), 429)
    assert "key test on requests per minute: limit 1, used 1, requested 1" in error["message"]
    world.keys.limits = Limits()
    assert limits_of(await world.chat(), "requests")[:2] == (10, 8)


async def test_one_too_many_is_told_when_to_come_back_and_that_is_true(world: World) -> None:
    world.keys.limit(requests_per_minute=2)
    assert [(await world.chat()).status_code for _ in range(2)] == [200, 200]
    pass_time(world, 1)
    refused = await world.chat()
    error = error_of(refused, 429)
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert "tenant acme on requests per minute: limit 2" in error["message"]
    assert refused.headers["retry-after"] == "30"
    after = int(refused.headers["retry-after-ms"])
    assert after == 29_999
    assert "x-should-retry" not in refused.headers
    pass_time(world, after - 1)
    assert (await world.chat()).status_code == 429
    pass_time(world, 1)
    assert (await world.chat()).status_code == 200


async def test_who_has_no_request_left_is_refused_before_a_long_body_is_read(world: World) -> None:
    world.keys.limit(requests_per_minute=1)
    long = b'{"model": ' + b"x" * 10_000  # not even JSON
    assert (await world.chat()).status_code == 200
    answer = await world.http.post("/v1/chat/completions", content=long)
    assert "on requests per minute: limit 1" in error_of(answer, 429)["message"]
    assert limits_of(answer, "requests")[:2] == (1, 0)
    pass_time(world, 60_000)
    answer = await world.http.post("/v1/chat/completions", content=long)
    assert answer.status_code == 400


async def test_a_long_body_that_is_refused_counts_as_a_request(world: World) -> None:
    world.keys.limit(requests_per_minute=1, concurrent_requests=1)
    long = {"model": MODEL, "prompt": "1" * 10_000}
    answer = await world.http.post("/v1/completions", json=long)
    assert error_of(answer, 400)["code"] == "context_length_exceeded"
    answer = await world.http.post("/v1/completions", json=long)
    assert "on requests per minute: limit 1" in error_of(answer, 429)["message"]
    assert (await world.chat()).status_code == 429
    pass_time(world, 60_000)
    assert (await world.chat()).status_code == 200  # no place is held any more


async def test_a_long_body_that_is_answered_counts_once(world: World) -> None:
    world.keys.limit(requests_per_minute=2, concurrent_requests=1)
    fields = {"metadata": {f"k{n}": "x" * 500 for n in range(10)}, "max_tokens": 1}
    for left in (1, 0):
        answer = await world.chat(**fields)
        assert answer.status_code == 200
        assert limits_of(answer, "requests")[:2] == (2, left)
    assert (await world.chat(**fields)).status_code == 429


async def test_a_request_with_a_grammar_counts_once_and_also_if_that_is_refused(
    world: World,
) -> None:
    world.keys.limit(requests_per_minute=2)
    assert (await world.chat(guided_regex="(")).status_code == 400
    world.say("ab")
    answer = await world.chat(guided_regex="ab")
    assert answer.status_code == 200
    assert limits_of(answer, "requests")[:2] == (2, 0)
    assert (await world.chat()).status_code == 429


async def test_lists_of_models_tell_the_limits_and_draw_from_none(world: World) -> None:
    world.keys.limit(**EVERYTHING)
    for path in ("/v1/models", "/v1/models/tiny", "/v1/models/other"):
        assert limits_of(await world.http.get(path), "requests")[:2] == (60, 60)


async def test_what_no_bucket_can_hold_is_refused_for_good(world: World) -> None:
    world.keys.limit(output_tokens_per_minute=100, input_tokens_per_minute=30)
    refused = await world.chat(max_tokens=200)
    error = error_of(refused, 429)
    assert (error["type"], error["code"]) == ("tokens", "rate_limit_exceeded")
    assert "exceeds the limit of 100" in error["message"]
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers
    assert limits_of(refused, "output-tokens")[1] == 100
    refused = await world.complete(prompt="word " * 20)
    assert "exceeds the limit of 30" in error_of(refused, 429)["message"]
    assert not world.books.opened


async def test_who_sets_no_bound_is_expected_to_be_usual_and_owes_the_rest(world: World) -> None:
    world.keys.limit(output_tokens_per_minute=100)
    world.say("x" * 299)
    response = await world.chat()
    assert limits_of(response, "output-tokens")[1] == 0
    assert response.json()["usage"]["completion_tokens"] == 300
    refused = await world.chat(max_tokens=1)
    assert refused.headers["retry-after"] == "121"  # 200 of debt and 1 to come


async def test_expected_output_is_learned(world: World) -> None:
    world.keys.limit(output_tokens_per_minute=100_000)
    reserved = []
    for _ in range(3):
        response = await world.chat()
        reserved.append(100_000 - limits_of(response, "output-tokens")[1])
        pass_time(world, 60_000)
    assert reserved == [256, 244, 232]  # of answers that have 6


async def test_places_at_once_are_limited_and_come_back(world: World) -> None:
    world.keys.limit(concurrent_requests=2)
    world.supervisor.paused = True
    waiting = [asyncio.create_task(world.chat()) for _ in range(2)]
    await until(lambda: len(world.books.opened) == 2)
    refused = await world.chat()
    assert error_of(refused, 429)["type"] == "requests"
    assert "limit 2" in refused.json()["error"]["message"]
    assert refused.headers["retry-after"] == "1"
    world.supervisor.paused = False
    assert [(await task).status_code for task in waiting] == [200, 200]
    assert (await world.chat()).status_code == 200


async def test_money_is_reserved_at_its_most_and_paid_as_it_comes(world: World) -> None:
    world.keys.limit(budget=100)
    world.prices.tag = price(1)
    most = PROMPT + 20
    assert (await world.chat(max_tokens=20)).status_code == 200
    cost = PROMPT + len("hello") + 1
    (opened,) = world.books.opened.values()
    assert opened.price_id == uuid.UUID(int=1)
    assert world.books.last()["cost"] == cost
    spent = cost
    while 100 - spent >= most:
        assert (await world.chat(max_tokens=20)).status_code == 200
        spent += cost
    refused = await world.chat(max_tokens=20)
    error = error_of(refused, 429)
    assert (error["type"], error["code"]) == ("insufficient_quota", "insufficient_quota")
    assert "budget of tenant acme" in error["message"].lower()
    assert refused.headers["x-should-retry"] == "false"
    assert int(refused.headers["retry-after"]) > 0
    assert (await world.chat(max_tokens=1)).status_code == 200  # for which there is enough


async def test_counters_that_begin_anew_ask_the_books_what_was_spent(world: World) -> None:
    world.keys.limit(budget=70)
    world.prices.tag = price(1)
    assert (await world.chat(max_tokens=20)).status_code == 200
    world.counters.forget_spent()
    assert (await world.chat(max_tokens=20)).status_code == 200
    assert (await world.chat(max_tokens=20)).status_code == 429


@BOTH
async def test_who_is_turned_away_by_us_has_not_asked(stream: bool) -> None:
    async with World(max_sequences=1, max_queue=0) as world:
        world.counters.now = Clock()
        world.keys.limit(**EVERYTHING)
        world.supervisor.paused = True
        first = asyncio.create_task(world.chat(max_tokens=5))
        await until(lambda: world.dispatcher.status().running == 1)
        refused = await world.chat(max_tokens=5, stream=stream)
        assert refused.status_code == 529
        assert limits_of(refused, "requests")[0] == 60
        world.supervisor.paused = False
        assert limits_of(await first, "requests")[1] == 59
        assert limits_of(await world.chat(temperature=99), "requests")[1] == 59


@BOTH
async def test_who_leaves_leaves_nothing_behind(world: World, stream: bool) -> None:
    world.keys.limit(**EVERYTHING)
    world.prices.tag = price(1)
    world.supervisor.pace = 0.001
    world.say("x" * 400)
    async with world.listening() as url, httpx.AsyncClient(base_url=url) as client:
        headers = dict(world.http.headers)
        body = {"model": "tiny", "prompt": "one two", "max_tokens": 300, "stream": stream}
        for moment in (0.0, 0.005, 0.02, 0.05):
            with pytest.raises((TimeoutError, httpx.HTTPError)):
                async with asyncio.timeout(moment):
                    await client.post("/v1/completions", json=body, headers=headers)
            await world.idle()
            pass_time(world, 60_000)
    await until(lambda: len(world.counters) == 0)
