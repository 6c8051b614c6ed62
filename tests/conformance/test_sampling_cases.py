"""Faults of sampling that users met in other servers, by their ids, against the HTTP surface.

`World` runs a scripted model whose tokens are bytes (`tests.edge.fakes`).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.edge.fakes import (
    MODEL,
    OTHER_KEY,
    OTHER_TENANT,
    TENANT,
    VOCAB,
    World,
    error_of,
    events,
    joined,
    reasons,
    text_of,
)

BOTH = pytest.mark.parametrize("stream", [False, True])


def strict(response: httpx.Response) -> Any:
    """A body that is JSON by the letter: no NaN and no Infinity."""
    assert response.status_code == 200, response.text

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(response.content, parse_constant=refuse)


async def test_lp_01_a_chats_logprobs_have_todays_shape(world: World) -> None:
    world.say("ok!")
    body = strict(await world.chat(logprobs=True, max_tokens=3))
    logprobs = body["choices"][0]["logprobs"]
    assert set(logprobs) == {"content", "refusal"}
    assert [entry["token"] for entry in logprobs["content"]] == ["o", "k", "!"]
    for entry in logprobs["content"]:
        assert entry["bytes"] == list(entry["token"].encode())
        assert entry["logprob"] <= 0
        assert entry["top_logprobs"] == []


async def test_lp_02_no_alternatives_are_still_logprobs(world: World) -> None:
    body = strict(await world.complete(logprobs=0, max_tokens=3))
    logprobs = body["choices"][0]["logprobs"]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert len(logprobs[name]) == 3
    assert logprobs["top_logprobs"] is None


async def test_lp_03_what_is_all_but_forbidden_is_a_number_in_json(world: World) -> None:
    """Also where fewer tokens are likely at all than alternatives are asked for."""
    world.supervisor.model.margin = 1e30
    bias = {str(token): -100 for token in range(VOCAB) if token != ord("a")}
    fields = {"logit_bias": bias, "max_tokens": 4, "logprobs": True, "top_logprobs": 20}
    body = strict(await world.chat(**fields))
    for entry in body["choices"][0]["logprobs"]["content"]:
        assert len(entry["top_logprobs"]) == 20
        assert all(other["logprob"] >= -9999 for other in entry["top_logprobs"])


async def test_lp_04_parts_of_a_character_stay_apart(world: World) -> None:
    world.supervisor.model.margin = 0.01
    world.say("你".encode(), eos=False)
    every = {str(token): -100 for token in range(128)}  # leaves only parts of characters
    fields = {"prompt": "你", "logit_bias": every, "temperature": 0, "max_tokens": 2}
    older = strict(await world.complete(**fields, logprobs=5))["choices"][0]["logprobs"]
    assert older["tokens"] == ["\\xe4", "\\xbd"]
    assert all(len(alternatives) >= 5 for alternatives in older["top_logprobs"])
    world.say("你", eos=False)
    chat = strict(await world.chat(logprobs=True, top_logprobs=2, max_tokens=2, temperature=0))
    content = chat["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in content] == [[0xE4], [0xBD]]


@pytest.mark.parametrize("stop", [None, "zzzz"])
async def test_lp_08_each_choices_tokens_bring_their_own_logprobs(
    world: World, stop: str | None
) -> None:
    world.supervisor.model.margin = 1.0
    world.say("你zzz你", eos=False)
    fields = {"n": 2, "logprobs": True, "top_logprobs": 1, "temperature": 1.5, "max_tokens": 8}
    fields |= {"seed": 5, "stop": stop, "ignore_eos": True}
    chunks = events(await world.chat(**fields, stream=True))
    whole = strict(await world.chat(**fields))
    for index in (0, 1):
        parts = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        streamed = [e for p in parts if p["logprobs"] for e in p["logprobs"]["content"]]
        assert streamed == whole["choices"][index]["logprobs"]["content"]
        assert len(streamed) == 8
        assert joined(chunks, index) == text_of(whole, index)
    assert reasons(chunks) == {0: "length", 1: "length"}


async def test_sa_03_draws_differ_without_a_seed_and_by_choice_with_one(world: World) -> None:
    world.supervisor.model.margin = 0.01
    fields = {"temperature": 1, "max_tokens": 12}
    one, other = await asyncio.gather(world.chat(**fields), world.chat(**fields))
    assert text_of(one.json()) != text_of(other.json())
    first, again = [(await world.chat(**fields, n=4, seed=1)).json() for _ in range(2)]
    texts = [text_of(first, index) for index in range(4)]
    assert len(set(texts)) == 4
    assert texts == [text_of(again, index) for index in range(4)]


async def test_sa_04_seeds_are_64_bit_integers(world: World) -> None:
    for seed in (2**63 - 1, -(2**63), -1, 0):
        assert (await world.chat(seed=seed, max_tokens=1)).status_code == 200
    for bad in (2**63, -(2**63) - 1, 1.5, "7", True):
        assert error_of(await world.chat(seed=bad), 400)["param"] == "seed"


async def test_sa_09_penalties_see_what_they_are_documented_to_see(world: World) -> None:
    """repetition_penalty the prompt as well, from the first token on; the others only what was
    generated. Company does not change it."""
    world.supervisor.model.margin = 1.0
    world.say("cccc", eos=False)
    fields = {"prompt": "cat", "temperature": 0, "max_tokens": 4}
    plain = text_of((await world.complete(**fields)).json())
    assert plain == "cccc"
    for penalty in ("presence_penalty", "frequency_penalty"):
        text = text_of((await world.complete(**fields, **{penalty: 1.5})).json())
        assert (text[0], text[1] == "c") == ("c", False)
    # "c" leads "x" by a little, and no longer where the prompt had a "c".
    options = {"logit_bias": {str(ord("x")): 0.8}, "repetition_penalty": 1.5}
    repeated = await world.complete(**{**fields, "max_tokens": 1}, **options)
    assert text_of(repeated.json()) == "x"
    elsewhere = await world.complete(**{**fields, "prompt": "dog", "max_tokens": 1}, **options)
    assert text_of(elsewhere.json()) == "c"
    mates = [asyncio.create_task(world.complete(max_tokens=3 + i)) for i in range(4)]
    beside = await world.complete(**{**fields, "max_tokens": 1}, **options)
    assert text_of(beside.json()) == text_of(repeated.json())
    await asyncio.gather(*mates)


async def test_mt_02_a_tenants_prompts_are_its_own(world: World) -> None:
    """What separates tenants' caches comes from the key alone; nothing in a body touches it."""
    seen: list[str] = []
    submit = world.supervisor.submit

    def note(request: Any) -> Any:
        seen.append(request.namespace)
        return submit(request)

    world.supervisor.submit = note  # type: ignore[method-assign]
    prompt = "a long prompt that both tenants send " * 10
    await world.complete(prompt=prompt, max_tokens=1, user="x", prompt_cache_key="shared")
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1, "prompt_cache_key": "shared"}
    headers = {"authorization": f"Bearer {OTHER_KEY}"}
    other = await world.http.post("/v1/completions", json=body, headers=headers)
    assert other.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert len(set(seen)) == 2
    assert (str(TENANT) in seen[0], str(OTHER_TENANT) in seen[1]) == (True, True)
    for field in ("namespace", "cache_salt", "tenant_id"):
        assert error_of(await world.complete(**{field: "x"}), 400)["param"] == field
