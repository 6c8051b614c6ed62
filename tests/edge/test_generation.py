"""Requests through the whole edge: their charges, queues, faults and endings."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import Send
from structlog.testing import capture_logs

from headrace.api import sse
from headrace.ops.backend import BLOCK_SIZE
from headrace.text.reasoning import Thinking
from headrace.turns.threads import Steps
from tests.edge.fakes import (
    AUTH,
    CONTEXT,
    KEY,
    MARK,
    MODEL,
    TURN,
    World,
    error_of,
    events,
    joined,
    text_of,
    until,
)

BOTH = pytest.mark.parametrize("stream", [False, True])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World(max_sequences=2, max_queue=2) as running:
        yield running
        await running.idle()


def stream_error(response: httpx.Response) -> Any:
    """The error event that ends a stream, which then has no [DONE]."""
    assert response.status_code == 200
    *_, last = response.text.removesuffix("\n\n").split("\n\n")
    assert "[DONE]" not in response.text
    return json.loads(last.removeprefix("data: "))["error"]


@BOTH
async def test_each_request_has_one_charge_with_its_counts(world: World, stream: bool) -> None:
    world.say("hello")
    response = await world.chat(stream=stream)
    answer_id = events(response)[0]["id"] if stream else response.json()["id"]
    (charge,) = world.books.opened.values()
    assert answer_id == f"chatcmpl-{charge.id.hex}"
    assert (charge.model, charge.model_version) == (MODEL, "v1")
    assert (charge.endpoint, charge.stream) == ("/v1/chat/completions", stream)
    assert world.books.closed[charge.id] == {
        "prompt_tokens": len("<user>Say ok.</>") + 2,
        "completion_tokens": len("hello") + 1,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
        "cost": 0,
        "ending": "stop",
    }


async def ask(world: World, send: Send, **body: Any) -> None:
    """Ask for a completion without HTTP, to see when what is sent."""
    content = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 2, **body}).encode()
    messages = [{"type": "http.request", "body": content, "more_body": False}]
    over = asyncio.Event()

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    headers = [(b"authorization", f"Bearer {KEY}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers}
    await world.app({**scope, "query_string": b""}, receive, send)


async def test_the_charge_is_closed_before_the_last_frame(world: World) -> None:
    sent: list[bytes] = []
    closed: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])
            closed.append(len(world.books.closed))

    await ask(world, send, stream=True)
    assert sent[-1] == sse.DONE
    assert closed == [0] * (len(closed) - 1) + [1]


async def test_refusals_before_the_queue_make_no_charge(world: World) -> None:
    await world.chat(temperature=9)
    await world.chat(model="nope")
    await world.complete(prompt=[65] * CONTEXT)
    await world.http.post("/v1/completions", content=b"{")
    assert world.books.opened == {}


async def test_a_full_queue_is_529_with_retry_after_and_costs_nothing(world: World) -> None:
    world.supervisor.paused = True
    accepted = [asyncio.create_task(world.complete(max_tokens=2)) for _ in range(4)]
    await until(lambda: world.dispatcher.status().queued == 2)
    for stream in (False, True):
        response = await world.complete(stream=stream)
        error = error_of(response, 529)
        assert (error["type"], error["code"]) == ("server_error", "server_is_overloaded")
        assert int(response.headers["retry-after"]) >= 1
        assert len(world.books.opened) == 4, "no charge was opened"
    world.supervisor.paused = False
    assert [r.status_code for r in await asyncio.gather(*accepted)] == [200] * 4


async def test_a_draining_service_is_503(world: World) -> None:
    world.dispatcher.drain()
    response = await world.complete()
    assert error_of(response, 503)["code"] == "service_unavailable"
    assert "retry-after" in response.headers
    ready = await world.http.get("/readyz")
    assert ready.status_code == 503
    assert "shutting down" in ready.json()["reason"]


async def test_more_choices_than_places_all_come(world: World) -> None:
    world.say("hi")
    body = (await world.complete(n=4)).json()
    assert [text_of(body, i) for i in range(4)] == ["hi"] * 4
    chunks = events(await world.complete(n=4, stream=True))
    assert [joined(chunks, i) for i in range(4)] == ["hi"] * 4


async def test_choices_of_an_answer_that_has_begun_may_wait_beyond_the_queue(world: World) -> None:
    world.say("hi")
    body = (await world.complete(n=9)).json()
    assert [text_of(body, i) for i in range(9)] == ["hi"] * 9
    assert world.books.last()["ending"] in ("stop", "length")


async def test_a_dead_engine_is_an_event_in_a_stream_and_a_500_elsewhere(world: World) -> None:
    world.supervisor.pace = 0.001
    requests = [
        asyncio.create_task(world.complete(max_tokens=400, stream=stream))
        for stream in (True, False)
    ]
    await world.supervisor.reach(5)
    world.supervisor.die()
    streamed, whole = await asyncio.gather(*requests)
    for error in (stream_error(streamed), error_of(whole, 500)):
        assert (error["type"], error["code"]) == ("server_error", "engine_error")
        assert "SIGKILL" in error["message"]
    for counts in world.books.closed.values():
        assert counts["ending"] == "error"
        assert 1 <= counts["completion_tokens"] < 400
    assert (await world.complete(max_tokens=1)).status_code == 200


async def test_an_engine_that_dies_before_the_first_token_costs_nothing(world: World) -> None:
    world.supervisor.paused = True
    request = asyncio.create_task(world.complete(max_tokens=4))
    await until(lambda: world.dispatcher.status().running > 0)
    world.supervisor.die()
    error_of(await request, 500)
    counts = world.books.last()
    assert (counts["prompt_tokens"], counts["completion_tokens"]) == (0, 0)


@pytest.mark.parametrize("options", [{}, {"n": 3}, {"n": 1, "best_of": 2}])
async def test_a_client_that_leaves_in_its_prompt_pays_what_was_computed(
    options: dict[str, int],
) -> None:
    async with World() as world, world.listening() as url:
        world.supervisor.pace = 0.05
        body = {"model": MODEL, "prompt": "x" * 480, "max_tokens": 9, **options}
        async with httpx.AsyncClient(headers=AUTH) as http:
            asked = asyncio.create_task(http.post(f"{url}/v1/completions", json=body))
            await world.supervisor.reach(3)
            asked.cancel()
        await world.idle()
        await until(lambda: bool(world.books.closed))
        counts = world.books.last()
        assert counts["ending"] == "cancelled"
        assert 0 < counts["prompt_tokens"] < 480
        assert counts["prompt_tokens"] % 64 == 0
        assert (counts["cached_tokens"], counts["completion_tokens"]) == (0, 0)


@BOTH
async def test_a_client_that_leaves_the_queue_is_never_run(stream: bool) -> None:
    async with World(max_sequences=1) as world, world.listening() as url:
        world.supervisor.paused = True
        first = asyncio.create_task(world.complete(max_tokens=2))
        body = {"model": MODEL, "prompt": "waiting", "stream": stream}
        async with httpx.AsyncClient(headers=AUTH) as http:
            second = asyncio.create_task(http.post(f"{url}/v1/completions", json=body))
            await until(lambda: world.dispatcher.status().queued > 0)
            second.cancel()
        await until(lambda: world.dispatcher.status().queued == 0)
        world.supervisor.paused = False
        assert (await first).status_code == 200
        await world.idle()
        assert list(b"waiting") not in world.supervisor.model.prompts
        ended = [(c["ending"], c["prompt_tokens"]) for c in world.books.closed.values()]
        assert sorted(ended) == [("cancelled", 0), ("length", 7)]


async def test_many_dropped_connections_leave_nothing() -> None:
    async with World(max_sequences=8, max_queue=100) as world, world.listening() as url:
        world.supervisor.pace = 0.001

        async def drop(http: httpx.AsyncClient, i: int) -> None:
            body = {"model": MODEL, "prompt": [i % 200 + 1] * (5 + i), "max_tokens": 300}
            request = http.post(f"{url}/v1/completions", json={**body, "stream": i % 2 == 0})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(request, 0.02 + i % 20 / 100)

        before = len(asyncio.all_tasks())
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(headers=AUTH, limits=limits) as http:
            await asyncio.gather(*(drop(http, i) for i in range(60)))
        await world.idle()
        assert (await world.complete(max_tokens=2)).status_code == 200
        await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_nothing_leaves_before_its_charge_is_in_the_books(world: World) -> None:
    world.books.held = True
    world.say("hi")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asked = [asyncio.create_task(ask(world, send, stream=stream)) for stream in (True, False)]
    await until(lambda: world.supervisor.steps > 0)  # the work begins meanwhile
    await asyncio.sleep(0.05)
    assert not sent
    assert not world.books.closed
    world.books.write()
    await asyncio.gather(*asked)
    assert [m["status"] for m in sent if m["type"] == "http.response.start"] == [200, 200]
    assert len(world.books.closed) == 2


async def test_a_stream_whose_charge_cannot_be_written_is_503_and_stops(world: World) -> None:
    world.books.held, world.books.patience = True, 0.02
    response = await world.complete(stream=True, n=2, max_tokens=400)
    assert error_of(response, 503)["code"] == "service_unavailable"
    assert not world.books.opened
    await world.idle()


async def test_while_the_books_are_late_no_work_begins_before_its_charge(world: World) -> None:
    world.books.held = world.books.late = True
    asked = [asyncio.create_task(world.complete(stream=s, max_tokens=2)) for s in (True, False)]
    await until(lambda: len(world.books.opened) == 2)
    await asyncio.sleep(0.02)
    assert world.supervisor.steps == 0
    world.books.write()
    assert [r.status_code for r in await asyncio.gather(*asked)] == [200, 200]
    steps = world.supervisor.steps
    world.books.held, world.books.patience = True, 0.02
    response = await world.complete(max_tokens=2)
    assert error_of(response, 503)["code"] == "service_unavailable"
    assert world.supervisor.steps == steps


async def test_a_fault_of_ours_names_the_request_and_the_next_is_served(world: World) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("disk on fire")

    whole, world.books.open = world.books.open, broken  # type: ignore[method-assign]
    with capture_logs() as logs:
        response = await world.complete()
    world.books.open = whole  # type: ignore[method-assign]
    error = error_of(response, 500)
    assert response.headers["x-request-id"] in error["message"]
    assert "fire" not in error["message"]
    assert any(entry["event"] == "request_failed" for entry in logs)
    assert (await world.complete(max_tokens=1)).status_code == 200


async def test_a_charge_that_cannot_be_closed_ends_the_stream_with_an_error(world: World) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("disk full")

    close, world.books.close = world.books.close, broken  # type: ignore[method-assign]
    response = await world.complete(stream=True, max_tokens=2)
    assert stream_error(response)["code"] == "internal_error"
    for id in world.books.opened:
        await close(id)


async def test_the_log_tells_of_requests_but_not_their_secrets(world: World) -> None:
    world.say("a secret")
    with capture_logs() as logs:
        await world.complete(prompt="the secret question")
    (line,) = [entry for entry in logs if entry["event"] == "request"]
    assert (line["status"], line["path"], line["tenant"]) == (200, "/v1/completions", "acme")
    assert (line["prompt_tokens"], line["ending"]) == (19, "stop")
    assert "secret" not in str(logs)
    assert KEY not in str(logs)


async def refusal_line(world: World, **fields: Any) -> dict[str, Any]:
    """The log line of a chat that is refused, or fails."""
    with capture_logs() as logs:
        await world.chat(**fields)
    (line,) = [entry for entry in logs if entry["event"] == "request"]
    return dict(line)


async def test_the_log_tells_why_a_request_was_refused(world: World) -> None:
    line = await refusal_line(world, temperature=9)
    assert (line["status"], line["error"], line["param"]) == (
        400,
        "invalid_request_error",
        "temperature",
    )
    line = await refusal_line(world, model="nothing")
    assert (line["error"], line["requested_model"]) == ("model_not_found", "nothing")
    line = await refusal_line(world, max_tokens=100_000)
    assert (line["error"], line["model"]) == ("context_length_exceeded", MODEL)
    world.keys.limit(requests_per_minute=1)
    await world.chat(max_tokens=1)
    line = await refusal_line(world, max_tokens=1)
    assert (line["status"], line["error"], line["model"]) == (429, "rate_limit_exceeded", MODEL)
    assert (line["limit"], line["limit_of"]) == ("requests_per_minute", "tenant")
    world.services.gate.closed = True
    line = await refusal_line(world)
    assert (line["status"], line["reason"]) == (503, "draining")


async def test_the_log_tells_of_an_error_in_the_middle_of_a_stream(world: World) -> None:
    world.supervisor.pace = 0.002
    with capture_logs() as logs:
        running = asyncio.create_task(world.chat(stream=True, max_tokens=200))
        await world.supervisor.reach(3)
        world.supervisor.die()
        await running
    (line,) = [entry for entry in logs if entry["event"] == "request"]
    assert (line["status"], line["error"]) == (200, "engine_error")


async def test_the_log_tells_of_a_refused_key(world: World) -> None:
    with capture_logs() as logs:
        await world.http.get("/v1/models", headers={"authorization": "Bearer hr-no_no"})
        await world.http.get("/v1/nothing")
    first, second = (entry for entry in logs if entry["event"] == "request")
    assert (first["status"], first["error"]) == (401, "invalid_api_key")
    assert (second["status"], second["error"]) == (404, "unknown_url")


async def test_request_ids_go_in_and_out(world: World) -> None:
    response = await world.http.get("/healthz", headers={"x-request-id": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"
    response = await world.chat(temperature=9)
    assert response.headers["x-request-id"].startswith("req_")


async def test_without_a_seed_draws_differ_and_with_one_they_do_not(world: World) -> None:
    world.supervisor.model.margin = 0.01

    async def draw(**fields: Any) -> str:
        return text_of((await world.complete(max_tokens=12, **fields)).json())

    assert await draw(seed=7) == await draw(seed=7)
    assert await draw(seed=-(2**63)) == await draw(seed=-(2**63))
    assert len({await draw() for _ in range(3)}) == 3
    body = (await world.complete(max_tokens=12, seed=7, n=2)).json()
    assert text_of(body, 0) != text_of(body, 1)


async def test_echo_puts_the_prompt_first(world: World) -> None:
    world.say(" three")
    for prompt in ("one two", list(b"one two")):
        assert text_of((await world.complete(prompt=prompt, echo=True)).json()) == "one two three"
        chunks = events(await world.complete(prompt=prompt, echo=True, stream=True))
        assert joined(chunks) == "one two three"


@BOTH
@pytest.mark.parametrize("prompt", ["abc", list(b"abc")])
async def test_echo_with_logprobs_scores_it(world: World, stream: bool, prompt: Any) -> None:
    world.say("de", eos=False)
    fields = {"prompt": [prompt, prompt], "n": 2, "echo": True, "logprobs": 1, "max_tokens": 2}
    response = await world.complete(**fields, stream=stream)
    chunks = events(response) if stream else [response.json()]
    for index in range(4):
        parts = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert "".join(part["text"] for part in parts) == "abcde"
        found: dict[str, list[Any]] = {}
        for part in parts:
            for name, values in (part["logprobs"] or {}).items():
                found[name] = found.get(name, []) + values
        assert found["tokens"] == list("abcde")
        assert found["text_offset"] == [0, 1, 2, 3, 4]
        assert found["token_logprobs"][0] is found["top_logprobs"][0] is None
        assert all(value <= 0 for value in found["token_logprobs"][1:])
        assert "b" in found["top_logprobs"][1]


@BOTH
async def test_a_prompt_alone_is_scored_and_costs_no_completion(world: World, stream: bool) -> None:
    response = await world.complete(
        prompt="abc", echo=True, logprobs=0, max_tokens=0, stream=stream
    )
    (choice, *_) = (events(response)[0] if stream else response.json())["choices"]
    assert choice["text"] == "abc"
    assert len(choice["logprobs"]["token_logprobs"]) == 3
    await world.idle()
    last = world.books.last()
    assert (last["prompt_tokens"], last["completion_tokens"], last["ending"]) == (3, 0, "length")


async def test_best_of_answers_the_likeliest_candidates_and_charges_all(world: World) -> None:
    world.supervisor.model.margin = 3.0
    fields = {"max_tokens": 4, "seed": 3, "temperature": 1.0, "ignore_eos": True}
    body = (await world.complete(**fields, n=4, logprobs=0)).json()

    def mean(choice: Any) -> float:
        values = choice["logprobs"]["token_logprobs"]
        return float(sum(values)) / len(values)

    ranked = sorted(body["choices"], key=mean, reverse=True)
    best = (await world.complete(**fields, n=2, best_of=4)).json()
    assert [choice["text"] for choice in best["choices"]] == [c["text"] for c in ranked[:2]]
    assert [choice["index"] for choice in best["choices"]] == [0, 1]
    assert all(choice["logprobs"] is None for choice in best["choices"])
    assert best["usage"]["completion_tokens"] == 16
    assert best["usage"]["prompt_tokens"] == body["usage"]["prompt_tokens"]
    prompts = ["one two", "one two"]
    several = (await world.complete(**fields, prompt=prompts, best_of=2, echo=True)).json()
    winner = "one two" + max(body["choices"][:2], key=mean)["text"]
    assert [(c["index"], c["text"]) for c in several["choices"]] == [(0, winner), (1, winner)]


async def test_equal_prompts_are_answered_apart_unless_a_seed_ties_them(world: World) -> None:
    world.supervisor.model.margin = 0.01
    fields = {"prompt": ["a", "a"], "max_tokens": 12}
    apart = (await world.complete(**fields)).json()
    assert text_of(apart, 0) != text_of(apart, 1)
    tied = (await world.complete(**fields, seed=1)).json()
    alone = (await world.complete(prompt="a", max_tokens=12, seed=1)).json()
    assert text_of(tied, 0) == text_of(tied, 1) == text_of(alone)


@BOTH
async def test_logprobs_cover_the_text_and_nothing_else(world: World, stream: bool) -> None:
    world.say("ab")
    response = await world.chat(logprobs=True, top_logprobs=2, stream=stream)
    if stream:
        found = [c["choices"][0]["logprobs"] for c in events(response)]
        content = [entry for part in found if part for entry in part["content"]]
    else:
        content = response.json()["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["a", "b"]
    assert all(len(entry["top_logprobs"]) == 2 for entry in content)
    body = (await world.complete(logprobs=3)).json()
    assert body["choices"][0]["logprobs"]["tokens"] == ["a", "b"]
    assert body["choices"][0]["logprobs"]["text_offset"] == [0, 1]


async def test_min_tokens_beyond_the_limit_is_refused(world: World) -> None:
    response = await world.complete(min_tokens=5, max_tokens=4)
    assert error_of(response, 400)["param"] == "min_tokens"
    world.say("ab")
    body = (await world.complete(min_tokens=6, max_tokens=8)).json()
    assert body["usage"]["completion_tokens"] >= 6


async def test_long_prompts_are_tokenised_off_the_event_loop(world: World) -> None:
    started, release = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(text: str, *, special: bool = False, most: int | None = None) -> Steps[array[int]]:
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
        yield
        return array("i", [65])

    world.text.text = slow  # type: ignore[method-assign]
    request = asyncio.create_task(world.complete(prompt="x" * 10_000, max_tokens=1))
    await started.wait()
    assert (await world.chat(max_tokens=1)).status_code == 200
    release.set()
    assert (await request).status_code == 200


async def test_a_key_without_the_inference_scope_is_403(world: World) -> None:
    headers = {"authorization": "Bearer hr-admin_secret"}
    response = await world.http.get("/v1/models", headers=headers)
    assert error_of(response, 403)["code"] == "permission_denied"


async def test_models_are_listed_and_shown(world: World) -> None:
    listed = (await world.http.get("/v1/models")).json()
    (card,) = listed["data"]
    assert (listed["object"], card["id"], card["object"]) == ("list", MODEL, "model")
    assert (await world.http.get(f"/v1/models/{MODEL}")).json() == card
    for name in ("max_model_len", "context_length", "context_window"):
        assert card[name] == CONTEXT
    error = error_of(await world.http.get("/v1/models/org/other"), 404)
    assert error["code"] == "model_not_found"


async def test_health_and_readiness(world: World) -> None:
    world.http.headers.pop("authorization")
    assert (await world.http.get("/healthz")).json() == {"status": "ok"}
    ready = (await world.http.get("/readyz")).json()
    assert ready["status"] == "ready"
    engine = ready["engine"]
    assert engine["blocks_free"] + engine["blocks_cached"] == engine["blocks_total"]
    assert engine["hit_tokens"] == engine["evictions"] == 0
    assert ready["dispatch"] == {"queued": 0, "running": 0}
    assert ready["memory"] == {"limit_bytes": 1 << 30}
    world.supervisor.capacity = 0
    response = await world.http.get("/readyz")
    assert response.status_code == 503
    assert "loading" in response.json()["reason"]
    assert (await world.http.get("/")).json()["service"] == "headrace"


async def test_unknown_paths_and_methods_are_json(world: World) -> None:
    assert error_of(await world.http.get("/v2/anything"), 404)["code"] == "unknown_url"
    error_of(await world.http.post("/v1/chat/completions/"), 404)
    response = await world.http.delete("/v1/models")
    assert error_of(response, 405)
    assert "GET" in response.headers["allow"]


@pytest.mark.parametrize(
    "content",
    [b'"\xff"', b'"\xc3"', b'"\\ud800"', b'"\\udc00x"', b'"\xed\xa0\x80"', b'"\x01"', b'"\\x"'],
)
async def test_text_that_is_no_unicode_is_refused(world: World, content: bytes) -> None:
    body = b'{"model":"tiny","messages":[{"role":"user","content":%b}]}' % content
    error_of(await world.http.post("/v1/chat/completions", content=body), 400)
    assert (await world.chat(max_tokens=1)).status_code == 200


async def test_control_characters_and_noncharacters_are_text(world: World) -> None:
    content = "\x00\x7f\ufffe\ufdd0\U0010ffff"
    response = await world.chat(messages=[{"role": "user", "content": content}], max_tokens=1)
    assert response.status_code == 200


@BOTH
async def test_the_room_is_the_pools_where_that_is_less_than_the_context(stream: bool) -> None:
    room = 2 * BLOCK_SIZE
    assert room < CONTEXT
    async with World(blocks=2) as world:
        world.say("", eos=False)
        for fields in ({"prompt": [65] * room}, {"prompt": [65], "max_tokens": room}):
            error = error_of(await world.complete(**fields, stream=stream), 400)
            assert error["code"] == "context_length_exceeded"
            assert str(room) in error["message"]
        whole = (await world.chat()).json()
        assert whole["usage"]["total_tokens"] == room
        assert whole["choices"][0]["finish_reason"] == "length"
        await world.idle()

        capacity, world.supervisor.capacity = world.supervisor.capacity, 0
        while_it_restarts = await world.complete(prompt=[65] * room, stream=stream)
        assert error_of(while_it_restarts, 400)["code"] == "context_length_exceeded"
        world.supervisor.capacity = capacity


@BOTH
@pytest.mark.parametrize("prompt", ["Y", ["Y", "N"]])
async def test_an_echoed_prompt_of_one_token_has_a_list_of_alternatives(
    world: World, prompt: Any, stream: bool
) -> None:
    fields = {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 0}
    response = await world.complete(stream=stream, **fields)
    chunks = events(response) if stream else [response.json()]
    found = [choice["logprobs"] for chunk in chunks for choice in chunk["choices"]]
    tops = [logprobs["top_logprobs"] for logprobs in found if logprobs]
    assert tops == [[None]] * len(prompt)


async def test_a_body_with_a_byte_order_mark_is_read(world: World) -> None:
    body = b'\xef\xbb\xbf{"model": "%b", "prompt": "a", "max_tokens": 1}' % MODEL.encode()
    assert (await world.http.post("/v1/completions", content=body)).status_code == 200


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"model": "a", "prompt": "a", "model": "b"}', "model"),
        (b'{"prompt": "a", "metadata": {"k": "1", "k": "2"}, "model": "a"}', "k"),
    ],
)
async def test_a_key_given_twice_is_refused_by_its_name(
    world: World, body: bytes, param: str
) -> None:
    error = error_of(await world.http.post("/v1/completions", content=body), 400)
    assert error["param"] == param


@BOTH
async def test_a_last_message_of_the_assistants_is_continued(world: World, stream: bool) -> None:
    said = [
        {"role": "user", "content": "Fruit?"},
        {"role": "assistant", "content": "The fruit is"},
    ]
    world.say("ok then")
    world.text.thoughts = Thinking("<think>", "</think>")
    for flags in ({}, {"continue_final_message": True, "add_generation_prompt": False}):
        response = await world.chat(messages=said, stream=stream, max_tokens=2, **flags)
        assert response.status_code == 200
        prompt = world.supervisor.model.prompts[-1]
        assert prompt[1:] == list(b"<user>Fruit?</><assistant>The fruit is")
        text = joined(events(response)) if stream else text_of(response.json())
        assert text == "ok"
    await world.chat(messages=said, max_tokens=1, continue_final_message=False)
    assert world.supervisor.model.prompts[-1][-1] == TURN
    bare = {"continue_final_message": False, "add_generation_prompt": False}
    await world.chat(messages=said, max_tokens=1, **bare)
    assert bytes(world.supervisor.model.prompts[-1][1:]).endswith(b"The fruit is</>")


async def test_continued_messages_have_no_thoughts(world: World) -> None:
    world.text.thoughts = Thinking("<think>", "</think>")
    world.say("<think>x</think>y")
    said = [{"role": "assistant", "content": "So"}]
    assert text_of((await world.chat(messages=said)).json()) == "<think>x</think>y"


async def test_an_answer_that_names_no_limit_ends_at_the_tenants_own(world: World) -> None:
    whole = (await world.chat(temperature=0)).json()
    world.keys.limit(default_max_tokens=3)
    cut = (await world.chat(temperature=0)).json()
    assert whole["usage"]["completion_tokens"] > 3
    assert (cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]) == ("length", 3)
    asked = (await world.chat(temperature=0, max_completion_tokens=4)).json()
    assert asked["usage"]["completion_tokens"] == 4, "the request's own limit is not changed"


@BOTH
async def test_a_suffix_is_asked_for_by_the_models_own_tokens(world: World, stream: bool) -> None:
    world.text.marker = "<mark>"
    world.supervisor.model.script = [*b"mid", MARK, *b"more"]
    response = await world.complete(prompt="a(", suffix=")b", stream=stream)
    assert world.supervisor.model.prompts[-1] == [*b"a(", MARK, *b")b"]
    chunks = events(response) if stream else [response.json()]
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == "mid"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_a_suffix_is_refused_where_the_model_has_no_tokens_for_it(world: World) -> None:
    assert error_of(await world.complete(suffix="b"), 400)["param"] == "suffix"
    assert (await world.complete(suffix="", max_tokens=1)).status_code == 200


async def test_control_tokens_in_a_raw_prompt_are_text_unless_asked_for(world: World) -> None:
    await world.complete(prompt="a<turn>b", max_tokens=1)
    assert world.supervisor.model.prompts[-1] == list(b"a<turn>b")
    await world.complete(prompt="a<turn>b", max_tokens=1, parse_special=True)
    assert world.supervisor.model.prompts[-1] == [*b"a", TURN, *b"b"]
