"""Faults that users met in other servers, by their ids, against the HTTP surface.

Everything behind the edge is real but the model's forward pass, which says what a case needs
(`tests.edge.fakes`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from headrace.api import sse
from headrace.edge.server import Server, bind
from tests.edge.fakes import (
    AUTH,
    BOS,
    CONTEXT,
    KEY,
    MODEL,
    VOCAB,
    World,
    error_of,
    events,
    joined,
    reasons,
    text_of,
    until,
)

HI = [{"role": "user", "content": "Say ok."}]
BOTH = pytest.mark.parametrize("stream", [False, True])
ENDPOINTS = pytest.mark.parametrize("endpoint", ["chat", "complete"])


async def answer(world: World, endpoint: str, stream: bool, **fields: Any) -> tuple[str, str]:
    """Text and finish_reason of a request with one choice."""
    ask = world.chat if endpoint == "chat" else world.complete
    response = await ask(stream=stream, **fields)
    if stream:
        chunks = events(response)
        return joined(chunks), reasons(chunks)[0]
    body = response.json()
    return text_of(body), body["choices"][0]["finish_reason"]


# Stop texts


@BOTH
@ENDPOINTS
async def test_st_01_no_piece_of_a_stop_is_ever_sent(
    world: World, endpoint: str, stream: bool
) -> None:
    world.say("ABC DEFGHIJ KLM")
    found = await answer(world, endpoint, stream, stop=["DEFGHIJ"], max_tokens=32)
    assert found == ("ABC ", "stop")


@BOTH
@pytest.mark.parametrize("eos", [True, False])
async def test_st_02_a_held_tail_is_flushed_at_the_end(
    world: World, stream: bool, eos: bool
) -> None:
    world.say("UNO DUE TRE", eos=eos)
    limit = 32 if eos else len("UNO DUE TRE")
    found = await answer(world, "chat", stream, stop=["TRE\nZZZZ"], max_tokens=limit)
    assert found == ("UNO DUE TRE", "stop" if eos else "length")


@BOTH
async def test_st_03_a_stop_across_tokens_ends_generation_there(world: World, stream: bool) -> None:
    world.say("alpha beta gamma delta")
    found = await answer(world, "chat", stream, stop=["beta gamma"], max_tokens=32)
    assert found == ("alpha ", "stop")
    assert world.books.last()["completion_tokens"] == len("alpha beta gamma")


@pytest.mark.parametrize("stop", ["", [""], ["a", "b", "c", "d", "e"], [5], {"a": 1}])
async def test_st_05_stops_that_make_no_sense_are_refused(world: World, stop: Any) -> None:
    assert error_of(await world.chat(stop=stop), 400)["param"].startswith("stop")
    assert (await world.chat(stop=None, max_tokens=2)).status_code == 200


@BOTH
@ENDPOINTS
async def test_st_06_the_stop_is_not_in_the_output(
    world: World, endpoint: str, stream: bool
) -> None:
    world.say("1, 2, 3, 4, 5, 6, 7, 8")
    found = await answer(world, endpoint, stream, stop=["7"], max_tokens=64)
    assert found == ("1, 2, 3, 4, 5, 6, ", "stop")


async def test_st_09_ignore_eos_gives_exactly_what_was_asked(world: World) -> None:
    world.say("ok")
    body = (await world.complete(ignore_eos=True, max_tokens=20)).json()
    assert body["usage"]["completion_tokens"] == 20
    assert body["choices"][0]["finish_reason"] == "length"


# Text in streams


async def test_tx_01_no_character_is_ever_sent_in_part(world: World) -> None:
    text = "a👨‍👩‍👧bé你"
    world.say(text)
    chunks = events(await world.chat(stream=True, max_tokens=40))
    deltas = [c["choices"][0]["delta"].get("content", "") for c in chunks]
    assert "".join(deltas) == text
    assert not any("\ufffd" in delta for delta in deltas)
    assert len(deltas) > len(text)
    assert await answer(world, "chat", False, max_tokens=40) == (text, "stop")


@BOTH
async def test_tx_03_a_character_cut_by_the_limit_becomes_one_replacement(
    world: World, stream: bool
) -> None:
    world.say(b"\xe4\xbd\xa0")
    assert await answer(world, "complete", stream, max_tokens=2) == ("\ufffd", "length")


async def test_tx_05_streams_say_that_they_are_utf8(world: World) -> None:
    response = await world.chat(stream=True, max_tokens=2)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"


async def test_tx_06_a_bad_request_for_a_stream_is_plain_json(world: World) -> None:
    assert error_of(await world.chat(n=0, stream=True), 400)["param"] == "n"


async def test_tx_08_quiet_streams_send_headers_at_once_and_comments() -> None:
    async with World(keepalive=0.02) as world, world.listening() as url:
        world.say("ok")
        world.supervisor.paused = True
        body = {"model": MODEL, "messages": HI, "stream": True}
        async with (
            httpx.AsyncClient(headers=AUTH) as http,
            http.stream("POST", f"{url}/v1/chat/completions", json=body) as response,
        ):
            assert response.status_code == 200
            seen = b""
            async for data in response.aiter_raw():
                seen += data
                if seen.count(sse.KEEPALIVE) == 3:
                    world.supervisor.paused = False
        assert seen.endswith(sse.DONE)
        world.supervisor.paused = True
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY)
        stream = await client.chat.completions.create(model=MODEL, messages=HI, stream=True)  # type: ignore[arg-type]
        await asyncio.sleep(0.1)
        world.supervisor.paused = False
        assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "ok"
        await client.close()


async def test_tx_09_chunks_of_one_answer_belong_together(world: World) -> None:
    first = events(await world.chat(stream=True, max_tokens=4))
    second = events(await world.chat(stream=True, max_tokens=4))
    assert len({(c["id"], c["created"]) for c in first}) == 1
    assert first[0]["id"] != second[0]["id"]
    assert first[0]["choices"][0]["delta"]["role"] == "assistant"


# Clients that leave


async def leave_after(world: World, url: str, path: str, body: dict[str, Any], steps: int) -> None:
    """Send a request and cut the connection once the engine made that many steps for it."""
    raw = json.dumps({"model": MODEL, **body}).encode()
    _, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
    head = (
        f"POST {path} HTTP/1.1\r\nhost: edge\r\nauthorization: Bearer {KEY}\r\n"
        f"content-length: {len(raw)}\r\n\r\n"
    )
    before = world.supervisor.steps
    writer.write(head.encode() + raw)
    await world.supervisor.reach(before + steps)
    writer.close()
    await world.idle()
    assert world.supervisor.steps < before + steps + 25, "the work went on for too long"


@BOTH
async def test_dc_01_work_stops_when_the_client_is_gone(stream: bool) -> None:
    async with World() as world, world.listening() as url:
        world.supervisor.pace = 0.002
        body = {"messages": HI, "max_tokens": 400, "stream": stream}
        await leave_after(world, url, "/v1/chat/completions", body, steps=5)
        assert world.books.last()["ending"] == "cancelled"


@BOTH
async def test_dc_03_all_choices_stop(stream: bool) -> None:
    async with World() as world, world.listening() as url:
        world.supervisor.pace = 0.002
        body = {"messages": HI, "n": 4, "stream": stream, "max_tokens": 400}
        await leave_after(world, url, "/v1/chat/completions", body, steps=4)
        assert world.dispatcher.status().running == 0
        assert len(world.books.closed) == 1


async def test_dc_04_prefill_is_abandoned_and_retries_do_not_pile_up() -> None:
    async with World() as world, world.listening() as url:
        world.supervisor.pace = 0.005
        prompt = [65] * (CONTEXT - 1)
        for _ in range(3):
            await leave_after(world, url, "/v1/completions", {"prompt": prompt}, steps=1)
        assert world.supervisor.engine.status().prefilled_tokens < len(prompt) * 2
        for counts in world.books.closed.values():
            assert (counts["ending"], counts["completion_tokens"]) == ("cancelled", 0)


async def test_dc_06_slow_readers_hold_up_nobody_and_are_not_dropped() -> None:
    async with World(max_sequences=64) as world, world.listening() as url:
        body = {"model": MODEL, "prompt": "one two", "max_tokens": 100, "stream": True}
        limits = httpx.Limits(max_connections=100)

        fast_ones_done = asyncio.Event()

        async def read(http: httpx.AsyncClient, *, slow: bool) -> str:
            async with http.stream("POST", f"{url}/v1/completions", json=body) as response:
                assert response.status_code == 200
                data = b""
                async for part in response.aiter_raw(1024):
                    data += part
                    if slow:
                        await fast_ones_done.wait()
            assert data.endswith(sse.DONE)
            return joined([json.loads(e[6:]) for e in data.decode().split("\n\n")[:-2]])

        async with httpx.AsyncClient(headers=AUTH, limits=limits, timeout=60) as http:
            slow = [asyncio.create_task(read(http, slow=True)) for _ in range(60)]
            fast = await asyncio.gather(*(read(http, slow=False) for _ in range(4)))
            fast_ones_done.set()
            texts = [*fast, *await asyncio.gather(*slow)]
        assert len(set(texts)) == 1
        assert len(texts[0]) == 100
        await world.idle()
        assert {c["ending"] for c in world.books.closed.values()} == {"length"}


async def test_us_03_what_was_generated_before_the_client_left_is_charged() -> None:
    async with World() as world, world.listening() as url:
        world.supervisor.pace = 0.002
        body = {"prompt": "one two", "max_tokens": 400, "stream": True}
        await leave_after(world, url, "/v1/completions", body, steps=6)
        counts = world.books.last()
        assert counts["ending"] == "cancelled"
        assert counts["prompt_tokens"] == len("one two")
        assert 5 <= counts["completion_tokens"] <= 40


# Limits


async def test_mx_02_max_tokens_at_its_borders(world: World) -> None:
    one = (await world.complete(max_tokens=1)).json()
    assert one["usage"]["completion_tokens"] == 1
    assert one["choices"][0]["finish_reason"] == "length"
    prompt = [65] * 8
    error = error_of(await world.complete(prompt=prompt, max_tokens=CONTEXT), 400)
    assert error["code"] == "context_length_exceeded"
    for number in (CONTEXT, 8, CONTEXT + 8):
        assert f"{number} " in error["message"] or f"({number} " in error["message"]
    for value in (-1, 0, 1e30, 10**30, 2**31):
        assert error_of(await world.complete(max_tokens=value), 400)["param"] == "max_tokens"
    error = error_of(await world.complete(max_tokens=2**31 - 1), 400)
    assert error["code"] == "context_length_exceeded"


@BOTH
async def test_mx_04_the_last_token_of_the_context(world: World, stream: bool) -> None:
    prompt = [65] * (CONTEXT - 1)
    text, reason = await answer(world, "complete", stream, prompt=prompt)
    assert (len(text), reason) == (1, "length")
    assert world.books.last()["completion_tokens"] == 1
    steps = world.supervisor.steps
    for length in (CONTEXT, CONTEXT + 1, CONTEXT * 3):
        error = error_of(await world.complete(prompt=[65] * length, stream=stream), 400)
        assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")
        assert str(length) in error["message"]
    assert world.supervisor.steps == steps
    assert len(world.books.opened) == 1


async def test_mx_05_too_many_choices_are_refused_at_once(world: World) -> None:
    for n in (1_000_000, -1, 2.5, 0):
        assert error_of(await world.chat(n=n), 400)["param"] == "n"
    assert error_of(await world.complete(best_of=1_000_000), 400)["param"] == "best_of"
    assert error_of(await world.complete(best_of=1, n=2), 400)["param"] == "best_of"


async def test_rq_06_large_bodies() -> None:
    async with World(max_body_bytes=4_000_000) as world:
        content = "x" * 3_000_000
        response = await world.chat(messages=[{"role": "user", "content": content}])
        error = error_of(response, 400)
        assert error["code"] == "context_length_exceeded"
        assert "at least 513 in the prompt" in error["message"]
        error = error_of(await world.complete(prompt="x" * 4_000_000), 413)
        assert "4000000" in error["message"]


@pytest.mark.parametrize(
    ("limit", "status", "read"), [(1_000_000, 413, 1_200_000), (4_000_000, 400, 1_400_000)]
)
async def test_rq_06_bodies_without_an_end(limit: int, status: int, read: int) -> None:
    """They are cut off at the limit, or before it where no model here could take them in."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 40_000_000:
            sent += 100_000
            yield b" " * 100_000

    async with World(max_body_bytes=limit) as world:
        response = await world.http.post("/v1/completions", content=endless())
        error_of(response, status)
        assert sent <= read, "it read on after the limit"
        async with world.listening() as url, httpx.AsyncClient(headers=AUTH) as http:
            sent = 0
            response = await http.post(f"{url}/v1/completions", content=endless())
            error_of(response, status)
            again = await http.post(
                f"{url}/v1/completions", json={"model": MODEL, "prompt": "a", "max_tokens": 1}
            )
            assert again.status_code == 200


async def test_rq_07_a_huge_header_is_cut_off() -> None:
    async with World() as world:
        server = Server(world.app, on_stop=world.dispatcher.drain)
        listener = bind("127.0.0.1", 0)
        serving = asyncio.create_task(server.serve(listener))
        await until(lambda: server.started)
        port = listener.getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: edge\r\nx-pad: ")
        tracemalloc.start()
        with contextlib.suppress(ConnectionError):
            for _ in range(160):
                writer.write(b"a" * 65536)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            answer = await reader.read()  # until the connection is closed
            assert answer.startswith(b"HTTP/1.1 431 ")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 4 << 20, "the header was kept"
        writer.close()
        async with httpx.AsyncClient(headers=AUTH) as http:
            assert (await http.get(f"http://127.0.0.1:{port}/v1/models")).status_code == 200
        server.stop()
        await serving


@BOTH
async def test_tm_01_a_full_queue_is_told_at_once_and_a_wait_ends_at_its_deadline(
    stream: bool,
) -> None:
    async with World(max_sequences=1, max_queue=2) as world:
        world.supervisor.pace = 0.005
        body = {"model": MODEL, "prompt": "one two", "stream": stream}
        running = asyncio.create_task(world.complete(max_tokens=300, ignore_eos=True))
        await until(lambda: world.dispatcher.status().running == 1)
        started = time.monotonic()
        deadline = AUTH | {"x-headrace-deadline-ms": "120"}
        late = await world.http.post("/v1/completions", json=body, headers=deadline)
        assert 0.1 < time.monotonic() - started < 2
        assert "waited_too_long" in error_of(late, 529)["message"]
        waiting = [asyncio.create_task(world.complete(stream=stream)) for _ in range(2)]
        await until(lambda: world.dispatcher.status().queued == 2)
        opened = len(world.books.opened)
        full = await world.complete(stream=stream)
        assert "queue_full" in error_of(full, 529)["message"]
        for response in (late, full):
            assert error_of(response, 529)["code"] == "server_is_overloaded"
            assert int(response.headers["retry-after"]) >= 1
            assert int(response.headers["retry-after-ms"]) >= 1000
        assert len(world.books.opened) == opened, "refused before the books knew of it"
        for task in (running, *waiting):
            task.cancel()
        await world.idle()


# Sampling


async def test_sa_01_choices_of_a_stream_and_their_usage(world: World) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = events(await world.chat(n=3, temperature=1, max_tokens=5, **options))
    assert reasons(chunks) == {0: "length", 1: "length", 2: "length"}
    (usage,) = [chunk["usage"] for chunk in chunks if chunk["usage"] is not None]
    single = (await world.chat(max_tokens=1)).json()["usage"]["prompt_tokens"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (single, 15)


async def test_sa_05_tiny_temperatures_are_greedy(world: World) -> None:
    world.supervisor.model.margin = 0.01
    world.say("the greedy text")
    for temperature in (0, 0.0001, 1e-05, 1e-12, 5e-324):
        body = (await world.chat(temperature=temperature, logprobs=True)).json()
        assert text_of(body) == "the greedy text", temperature
        for entry in body["choices"][0]["logprobs"]["content"]:
            assert -10 < entry["logprob"] <= 0


async def test_sa_07_top_p_at_its_borders(world: World) -> None:
    world.supervisor.model.margin = 0.01
    world.say("the greedy text")
    assert text_of((await world.chat(top_p=0)).json()) == "the greedy text"
    assert text_of((await world.chat(top_p=1, max_tokens=20)).json()) != "the greedy text"
    for top_p in (-0.1, 1.1):
        assert error_of(await world.chat(top_p=top_p), 400)["param"] == "top_p"


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 999999},
        {"top_p": -1},
        {"repetition_penalty": 0},
        {"repetition_penalty": -1},
        {"presence_penalty": 2.1},
        {"frequency_penalty": -2.1},
        {"top_k": -5},
        {"min_p": 1.5},
    ],
)
async def test_sa_08_values_out_of_range_are_refused_beside_others(
    world: World, fields: dict[str, float]
) -> None:
    world.say("hello")
    mate = asyncio.create_task(world.chat())
    assert error_of(await world.chat(**fields), 400)["param"] == next(iter(fields))
    assert text_of((await mate).json()) == "hello"


async def test_sa_12_ids_outside_the_vocabulary_are_refused(world: World) -> None:
    beyond = VOCAB
    refused = [
        await world.complete(prompt=[1, beyond]),
        await world.complete(prompt=[[1], [beyond]]),
        await world.complete(logit_bias={str(beyond): 1}),
        await world.complete(stop_token_ids=[beyond]),
        await world.complete(prompt=[2**31 - 1]),
    ]
    params = ["prompt", "prompt[1]", "logit_bias", "stop_token_ids", "prompt"]
    assert [error_of(r, 400)["param"] for r in refused] == params
    kept = await world.complete(prompt=[beyond - 1], logit_bias={str(beyond - 1): -100})
    assert kept.status_code == 200


# Messages


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (None, "messages"),
        ("hi", "messages"),
        ([{}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "wizard", "content": "x"}], "messages[0].role"),
    ],
)
async def test_ms_01_faulty_messages_are_named(world: World, messages: Any, param: str) -> None:
    error = error_of(await world.chat(messages=messages), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


async def test_ms_02_an_empty_assistant_turn_is_legal(world: World) -> None:
    turns = [("user", "A"), ("assistant", ""), ("user", "B")]
    messages = [{"role": role, "content": content} for role, content in turns]
    assert (await world.chat(messages=messages, max_tokens=4)).status_code == 200


async def test_ms_03_text_parts_are_joined_to_one_string(world: World) -> None:
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}]
    await world.chat(messages=[{"role": "user", "content": parts}], max_tokens=1)
    assert b"<user>abcd</>" in bytes(t for t in world.supervisor.model.prompts[-1] if t < 256)
    lengths = set()
    for content in ("abcd", [{"type": "text", "text": "abcd"}]):
        response = await world.chat(messages=[{"role": "user", "content": content}], max_tokens=1)
        lengths.add(response.json()["usage"]["prompt_tokens"])
    assert len(lengths) == 1


async def test_ms_04_images_are_refused_and_never_fetched(world: World) -> None:
    for url in ("data:image/png;base64,AAAA", "http://127.0.0.1:9/x.png"):
        part = {"type": "image_url", "image_url": {"url": url}}
        response = await world.chat(messages=[{"role": "user", "content": [part]}])
        error = error_of(response, 400)
        assert "takes no images" in error["message"]
        assert error["param"] == "messages[0].content[0]"
    response = await world.chat(messages=[{"role": "user", "content": [{"type": "smell"}]}])
    assert error_of(response, 400)["param"] == "messages[0].content[0].type"


async def test_ms_06_unsupported_reasoning_effort_is_refused(world: World) -> None:
    messages = [{"role": "developer", "content": "be brief"}, *HI]
    response = await world.chat(messages=messages, reasoning_effort="bogus")
    assert error_of(response, 400)["param"] == "reasoning_effort"
    assert (await world.chat(messages=messages, max_tokens=2)).status_code == 200
    assert b"<system>be brief</>" in bytes(t for t in world.supervisor.model.prompts[-1] if t < 256)


async def test_ms_07_a_template_that_raises_costs_nobody_anything(world: World) -> None:
    bad, *good = await asyncio.gather(
        world.chat(messages=[{"role": "user", "content": "RAISE"}]),
        *(world.chat(max_tokens=5) for _ in range(50)),
    )
    error = error_of(bad, 400)
    assert error["param"] == "messages"
    assert "alternate" in error["message"]
    assert [response.status_code for response in good] == [200] * 50


# Requests


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": "false"},
        {"stream": 1},
        {"max_tokens": "256"},
        {"max_tokens": True},
        {"max_tokens": 3.7},
        {"temperature": "0.5"},
        {"n": "2"},
        {"model": 5},
        {"stop": {"a": 1}},
        {"tools": {}},
        {"messages": {}},
        {"user": 7},
    ],
)
async def test_rq_01_wrong_types_are_refused_by_name(world: World, fields: dict[str, Any]) -> None:
    error = error_of(await world.chat(**fields), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", next(iter(fields)))


async def test_rq_02_unknown_parameters_are_refused_and_nulls_are_absent(world: World) -> None:
    for name, value in (("max_token", 4), ("temperatur", 0.9), ("totally_made_up", [1])):
        error = error_of(await world.chat(**{name: value}), 400)
        assert error["param"] == name
        assert name in error["message"]
    assert "'max_tokens'" in error_of(await world.chat(max_token=4), 400)["message"]
    nulls = dict.fromkeys(["seed", "stop", "tools", "logit_bias", "user"])
    assert (await world.chat(**nulls, max_tokens=2)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        '"x"',
        "null",
        "123",
        '{"model":"m","messages":[]}}',
        '{"model":"m",}',
        '{"model":"m","temperature":NaN}',
        '{"model":"m","temperature":Infinity}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_rq_03_broken_json_is_refused(world: World, path: str, body: str) -> None:
    error = error_of(await world.http.post(path, content=body), 400)
    assert error["type"] == "invalid_request_error"
    refused = await world.http.get(path)
    assert error_of(refused, 405)["code"] == "method_not_allowed"
    assert refused.headers["allow"] == "POST"


@pytest.mark.parametrize("key", ["tools", "whatever", "messages"])
async def test_rq_05_deep_nesting_is_refused_fast(world: World, key: str) -> None:
    body = f'{{"model":"m","{key}":' + "[" * 100_000 + "]" * 100_000 + "}"
    started = time.monotonic()
    error_of(await world.http.post("/v1/chat/completions", content=body), 400)
    assert time.monotonic() - started < 1
    assert (await world.chat(max_tokens=1)).status_code == 200


async def test_rq_10_empty_prompts(world: World) -> None:
    for prompt in ("", [""]):
        response = await world.complete(prompt=prompt, max_tokens=2)
        assert response.json()["usage"]["prompt_tokens"] == 1
        assert world.supervisor.model.prompts[-1] == [BOS]
    world.text.bos_id = None
    for prompt, param in (("", "prompt"), ([""], "prompt[0]"), ([], "prompt"), ([[]], "prompt[0]")):
        assert error_of(await world.complete(prompt=prompt), 400)["param"] == param
    assert (await world.complete(max_tokens=1)).status_code == 200


@BOTH
async def test_rq_11_many_prompts_and_choices(world: World, stream: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if stream else {}
    fields = {"prompt": ["a", "bc", "def"], "n": 2, "max_tokens": 4}
    response = await world.complete(**fields, stream=stream, **options)
    if stream:
        chunks = events(response)
        assert reasons(chunks) == dict.fromkeys(range(6), "length")
        assert all(len(joined(chunks, index)) == 4 for index in range(6))
        order = [c["choices"][0]["index"] for c in chunks if c["choices"]]
        assert max(order.index(i) for i in range(6)) < order.index(0) + 12, "they interleave"
        usage = chunks[-1]["usage"]
    else:
        body = response.json()
        assert [c["index"] for c in body["choices"]] == list(range(6))
        usage = body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (6, 24)


async def test_rq_13_the_model_field(world: World) -> None:
    for name, status in (("nope", 404), ("", 404), (None, 400), ("../etc", 404)):
        for ask in (world.chat, world.complete):
            error = error_of(await ask(model=name), status)
            assert error["param"] == "model"
            if status == 404:
                assert error["code"] == "model_not_found"
    assert (await world.chat(max_tokens=1)).json()["model"] == MODEL


# Keys and usage


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Bearer", 401),
        ("Bearer  x", 401),
        (f"bearer {KEY}", 200),
        (f"Basic {KEY}", 401),
        (KEY, 401),
        ("Bearer " + "x" * 5000, 401),
        ("Bearer clé", 401),
    ],
)
async def test_ky_03_the_key_comes_before_everything(
    world: World, authorization: str | None, status: int
) -> None:
    headers = {} if authorization is None else {"authorization": authorization.encode()}
    body = {"model": MODEL, "messages": HI, "max_tokens": 1}

    async def unread() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read before the key was known")
        yield b""

    world.http.headers.pop("authorization")
    if status == 200:
        response = await world.http.post("/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 200
        return
    for path in ("/v1/chat/completions", "/v1/completions"):
        response = await world.http.post(path, content=unread(), headers=headers)
        assert error_of(response, 401)["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
    error_of(await world.http.get("/v1/models", headers=headers), 401)
    assert (await world.http.get("/healthz")).status_code == 200
    assert (await world.http.get("/readyz")).status_code == 200
    preflight = await world.http.options(
        "/v1/chat/completions",
        headers={
            "origin": "https://app.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "*"


async def test_ky_03_anthropics_header_has_a_key_too(world: World) -> None:
    world.http.headers.pop("authorization")
    assert (await world.message()).status_code == 401
    for key, status in (("hr-no_such", 401), (KEY, 200)):
        world.http.headers["x-api-key"] = key
        response = await world.message(max_tokens=1)
        assert response.status_code == status
        assert response.json()["type"] == ("message" if status == 200 else "error")


# Anthropic's dialect


@BOTH
async def test_an_02_rows_of_the_table(world: World, stream: bool) -> None:
    world.say("one END two")
    rows: list[tuple[dict[str, Any], int]] = [
        ({"max_tokens": None}, 400),
        ({"messages": [{"role": "system", "content": "x"}, *HI]}, 200),  # merged
        ({"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, 200),
    ]
    for fields, status in rows:
        response = await world.message(stream=stream, **fields)
        assert response.status_code == status, response.text
        if status == 400:
            error = response.json()
            assert error["type"] == "error"
            assert set(error["error"]) == {"type", "message"}
    response = await world.message(stream=stream, stop_sequences=["END"])
    ended = '"stop_reason":"stop_sequence","stop_sequence":"END"'
    assert ended in response.text


async def test_an_02_a_count_is_what_the_call_has(world: World) -> None:
    tool = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
    asked: list[dict[str, Any]] = [{}, {"system": "Be brief."}, {"tools": [tool], "system": "x"}]
    for fields in asked:
        body = {"model": MODEL, "messages": HI, **fields}
        counted = await world.http.post("/v1/messages/count_tokens", json=body)
        usage = (await world.message(**fields, max_tokens=1)).json()["usage"]
        assert usage["cache_read_input_tokens"] == 0
        assert counted.json() == {"input_tokens": usage["input_tokens"]}


@ENDPOINTS
async def test_us_01_usage_comes_last_and_is_null_before(world: World, endpoint: str) -> None:
    ask = world.chat if endpoint == "chat" else world.complete
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = events(await ask(**options, max_tokens=3))
    assert all(chunk["choices"] and chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert last["usage"] == (await ask(max_tokens=3)).json()["usage"]


async def test_us_02_no_usage_unless_asked_for(world: World) -> None:
    chunks = events(await world.chat(stream=True, max_tokens=3))
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks)
    whole = await world.chat(stream_options={"include_usage": True}, max_tokens=3)
    assert whole.json()["usage"]["completion_tokens"] == 3
