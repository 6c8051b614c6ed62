"""The prefix cache as callers see it, by the ids of the cases: hits are equal to misses, and no
tenant meets another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest

from headrace.ops.backend import BLOCK_SIZE
from tests.edge.fakes import OTHER_KEY, VOCAB, World, events, text_of, until
from tests.engine.fakes import hashed

LONG = "a prompt that is longer than some blocks of the cache are, for both to share it. " * 3
WHOLE = (len(LONG) - 1) // BLOCK_SIZE * BLOCK_SIZE
BOTH = pytest.mark.parametrize("stream", [False, True])
ENDPOINTS = pytest.mark.parametrize("endpoint", ["chat", "complete"])
OTHER = {"authorization": f"Bearer {OTHER_KEY}"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        running.supervisor.model.answer = hashed_bytes
        yield running
        await running.idle()


def hashed_bytes(history: list[int]) -> Any:
    """Logits of plain letters that depend on everything before them."""
    logits = np.full(VOCAB, -50, np.float32)
    logits[97:123] = hashed(history)[97:123]
    return logits


async def ask(
    world: World, prompt: str, *, endpoint: str = "complete", stream: bool = False, **options: Any
) -> tuple[str, int]:
    """The text, and how many tokens of its prompt usage says came from the cache."""
    headers = options.pop("headers", {})
    body: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 24, **options}
    if endpoint == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
        path = "/v1/chat/completions"
    else:
        body["prompt"] = prompt
        path = "/v1/completions"
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    response: httpx.Response = await world.http.post(path, json=body, headers=headers)
    if not stream:
        whole = response.json()
        return text_of(whole), whole["usage"]["prompt_tokens_details"]["cached_tokens"]
    *chunks, last = events(response)
    text = "".join(
        (c["choices"][0].get("delta") or {}).get("content") or c["choices"][0].get("text") or ""
        for c in chunks
    )
    return text, last["usage"]["prompt_tokens_details"]["cached_tokens"]


@BOTH
@ENDPOINTS
async def test_mt_03_a_hit_is_equal_to_a_miss(world: World, endpoint: str, stream: bool) -> None:
    cold, none = await ask(world, LONG, endpoint=endpoint, stream=stream)
    assert none == 0
    warm, cached = await ask(world, LONG, endpoint=endpoint, stream=stream)
    assert (warm, cached >= WHOLE, cached % BLOCK_SIZE) == (cold, True, 0)
    assert world.books.last()["cached_tokens"] == cached

    longer, cached = await ask(world, LONG + "And more.", endpoint=endpoint, stream=stream)
    assert cached >= WHOLE
    changed, cached = await ask(world, LONG.replace("a", "A", 1), endpoint=endpoint, stream=stream)
    assert cached == 0  # the difference is in the first block

    async with World(prefix_cache=False) as fresh:
        fresh.supervisor.model.answer = hashed_bytes
        for prompt, text in (
            (LONG, cold),
            (LONG + "And more.", longer),
            (LONG.replace("a", "A", 1), changed),
        ):
            assert await ask(fresh, prompt, endpoint=endpoint, stream=stream) == (text, 0)


async def test_mt_03_equal_blocks_after_different_beginnings_are_not_mixed_up(
    world: World,
) -> None:
    block = "x" * BLOCK_SIZE
    one, _ = await ask(world, "1" * BLOCK_SIZE + block + "?")
    two, cached = await ask(world, "2" * BLOCK_SIZE + block + "?")
    assert cached == 0
    assert one != two
    assert await ask(world, "2" * BLOCK_SIZE + block + "?") == (two, 2 * BLOCK_SIZE)


async def test_mt_03_a_conversation_goes_on_from_its_own_answer(world: World) -> None:
    said, _ = await ask(world, LONG, max_tokens=3 * BLOCK_SIZE)
    assert len(said) == 3 * BLOCK_SIZE
    _, cached = await ask(world, LONG + said + "?")
    assert cached >= WHOLE + 2 * BLOCK_SIZE


async def test_choices_of_one_prompt_compute_it_once(world: World) -> None:
    body = {"model": "tiny", "prompt": LONG, "n": 4, "max_tokens": 4, "seed": 1}
    usage = (await world.http.post("/v1/completions", json=body)).json()["usage"]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) == (
        len(LONG),
        0,
    )
    status = world.supervisor.engine.status()
    assert status.hit_tokens == 3 * WHOLE
    assert status.prefilled_tokens == len(LONG) + 3 * (len(LONG) - WHOLE)


@BOTH
@ENDPOINTS
async def test_mt_02_no_tenant_finds_anothers_prompt(
    world: World, endpoint: str, stream: bool
) -> None:
    mine, _ = await ask(world, LONG, endpoint=endpoint, stream=stream)
    _, cached = await ask(world, LONG, endpoint=endpoint, stream=stream)
    assert cached > 0
    before = world.supervisor.engine.status()
    theirs, cached = await ask(world, LONG, endpoint=endpoint, stream=stream, headers=OTHER)
    after = world.supervisor.engine.status()
    assert (theirs, cached) == (mine, 0)
    # What a clock could tell: every token of the prompt was computed anew.
    assert after.hit_tokens == before.hit_tokens
    assert after.prefilled_tokens - before.prefilled_tokens >= len(LONG)


async def test_mt_02_tenants_that_ask_at_once_do_not_wait_for_each_other(world: World) -> None:
    world.supervisor.paused = True
    asked = [
        asyncio.create_task(ask(world, LONG)),
        asyncio.create_task(ask(world, LONG, headers=OTHER)),
    ]
    await until(lambda: world.supervisor.live == 2)
    world.supervisor.paused = False
    (mine, none), (theirs, nothing) = await asyncio.gather(*asked)
    assert (mine, none, nothing) == (theirs, 0, 0)
    assert world.supervisor.engine.status().hit_tokens == 0


async def test_mt_02_callers_cannot_name_a_namespace(world: World) -> None:
    for field in ("cache_salt", "namespace", "published", "priority"):
        body = {"model": "tiny", "prompt": LONG, field: "tenant"}
        response = await world.http.post("/v1/completions", json=body)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == field
    await ask(world, LONG, prompt_cache_key="shared")
    _, cached = await ask(world, LONG, prompt_cache_key="shared", headers=OTHER)
    assert cached == 0


async def test_mt_02_what_the_operator_published_is_shared_and_nothing_beyond() -> None:
    async with World(published_texts=(LONG,)) as world:
        world.supervisor.model.answer = hashed_bytes
        rest = " and of this nobody may know, long as it is, and it is longer than a block"
        mine, _ = await ask(world, LONG + rest)
        theirs, cached = await ask(world, LONG + rest, headers=OTHER)
        assert (theirs, cached) == (mine, len(LONG) // BLOCK_SIZE * BLOCK_SIZE)
        await world.idle()
