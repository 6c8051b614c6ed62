"""Work before dispatch: bounded, in turns, until its deadline, and only while somebody waits."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading
import time
from array import array
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from typing import Any

import pytest

from headrace.api.anthropic.request import CountRequest
from headrace.api.openai.parameters import GenerationParameters
from headrace.edge.admission import Admission
from headrace.edge.aside import preparing_threads
from headrace.edge.endpoint import BODY_BYTES, BODY_CONTAINERS, BODY_ITEMS, BYTES_A_TOKEN
from headrace.grammar.compiler import Compiler
from headrace.text.metered.meter import GivenUp
from headrace.turns.threads import ASIDE, Steps, in_one
from tests.edge.fakes import MODEL, OTHER_KEY, World, error_of, until

OTHER = {"authorization": f"Bearer {OTHER_KEY}"}
JSON = {"content-type": "application/json"}
LONG = "x" * 10_000
REQUESTS = (Admission, CountRequest, GenerationParameters)
PATIENCE = 30.0


class Slow:
    """A tokenizer whose every step ends when it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.closed = 0
        self._go = threading.Semaphore(0)

    def text(
        self, text: str, *, special: bool = False, most: int | None = None
    ) -> Steps[array[int]]:
        try:
            for step in range(3):
                self.begun.append(f"{text[0]}{step}")
                assert self._go.acquire(timeout=PATIENCE)
                yield None
            return array("i", [65])
        finally:
            self.closed += 1

    def let_go(self, steps: int) -> None:
        self._go.release(steps)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as world:
        yield world


@pytest.fixture
def slow(world: World) -> Iterator[Slow]:
    tokenizer = Slow()
    world.text.text = tokenizer.text  # type: ignore[method-assign]
    yield tokenizer
    tokenizer.let_go(1000)


async def test_a_deadline_ends_the_wait_and_the_work(world: World, slow: Slow) -> None:
    headers = {"x-headrace-deadline-ms": "200"}
    body = {"model": MODEL, "prompt": LONG}
    answer = await world.http.post("/v1/completions", json=body, headers=headers)
    assert "(waited_too_long)" in error_of(answer, 529)["message"]
    assert "retry-after" in answer.headers
    assert world.aside.intake.held == 0
    slow.let_go(1)
    await until(lambda: slow.closed == 1)
    assert slow.begun == ["x0"]


async def test_work_that_a_deadline_ends_counts_as_a_request(world: World, slow: Slow) -> None:
    world.keys.limit(requests_per_minute=10)
    answer = await world.http.post(
        "/v1/completions",
        json={"model": MODEL, "prompt": LONG},
        headers={"x-headrace-deadline-ms": "1000"},
    )
    assert answer.status_code == 529
    assert slow.begun == ["x0"]
    assert answer.headers["x-ratelimit-remaining-requests"] == "9"


async def test_a_grammar_that_a_deadline_ends_counts_as_a_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.keys.limit(requests_per_minute=10)
    begun, go = threading.Event(), threading.Event()

    def compile_slowly(*_: object) -> None:
        begun.set()
        assert go.wait(PATIENCE)

    monkeypatch.setattr(Compiler, "compile", compile_slowly)
    answer = await world.http.post(
        "/v1/completions",
        json={"model": MODEL, "prompt": "a", "guided_choice": ["b", "c"]},
        headers={"x-headrace-deadline-ms": "1000"},
    )
    go.set()
    assert answer.status_code == 529
    assert begun.is_set()
    assert answer.headers["x-ratelimit-remaining-requests"] == "9"


async def test_a_deadline_that_passes_before_any_work_gives_the_request_back(
    world: World, slow: Slow
) -> None:
    world.keys.limit(requests_per_minute=10)
    go = threading.Event()
    for owner in range(preparing_threads()):
        world.aside.threads.submit(owner, in_one(go.wait))
    answer = await world.http.post(
        "/v1/completions",
        json={"model": MODEL, "prompt": LONG},
        headers={"x-headrace-deadline-ms": "200"},
    )
    go.set()
    assert answer.status_code == 529
    assert slow.begun == []
    assert answer.headers["x-ratelimit-remaining-requests"] == "10"


async def test_an_engine_that_is_away_gives_the_request_back_though_work_had_begun(
    world: World,
) -> None:
    world.keys.limit(requests_per_minute=10)
    world.dispatcher.drain()
    answer = await world.complete(prompt=LONG)
    assert answer.status_code == 503
    assert answer.headers["x-ratelimit-remaining-requests"] == "10"


async def test_other_tenants_have_their_turn_between_the_steps_of_a_flood(
    world: World, slow: Slow
) -> None:
    flood = [
        asyncio.create_task(world.complete(prompt="f" * 10_000, max_tokens=1)) for _ in range(20)
    ]
    await until(lambda: len(slow.begun) == 1)
    body = {"model": MODEL, "prompt": "o" * 10_000, "max_tokens": 1}
    other = asyncio.create_task(world.http.post("/v1/completions", json=body, headers=OTHER))
    await until(lambda: len(slow.begun) == 2)
    assert sorted(slow.begun) == ["f0", "o0"]  # a flood never has all threads
    while not other.done():
        slow.let_go(1)
        await asyncio.sleep(0.01)
    assert (await other).status_code == 200
    assert len(slow.begun) < 60  # the flood has 60 steps
    slow.let_go(1000)
    assert {answer.status_code for answer in await asyncio.gather(*flood)} == {200}


async def test_more_bodies_than_a_tenant_may_have_under_way_are_a_429(
    world: World, slow: Slow
) -> None:
    world.aside.intake.capacity = 60_000
    held = [asyncio.create_task(world.complete(prompt=LONG, max_tokens=1)) for _ in range(2)]
    await until(lambda: world.aside.intake.held > 20_000)
    answer = await world.complete(prompt=LONG)
    assert "bodies that are being read" in error_of(answer, 429)["message"]
    assert (await world.chat(max_tokens=1)).status_code == 200  # small ones are not counted
    slow.let_go(1000)
    assert {answer.status_code for answer in await asyncio.gather(*held)} == {200}
    assert world.aside.intake.held == 0


async def test_bodies_count_only_until_they_are_planned(world: World) -> None:
    world.supervisor.paused = True
    await world.supervisor.reach(0)
    body = {"metadata": {f"k{n}": "x" * 500 for n in range(10)}, "max_tokens": 1}
    request = asyncio.create_task(world.chat(**body))
    await until(lambda: world.supervisor.live == 1)
    assert world.aside.intake.held == 0
    world.supervisor.paused = False
    assert (await request).status_code == 200


class Endless:
    """A request body without an end, in parts of 100,000 bytes. parts: how many were sent."""

    parts = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.parts += 1
            yield b"x" * 100_000


async def test_a_body_that_no_context_could_take_in_is_refused_before_it_is_read(
    world: World,
) -> None:
    body = Endless()
    headers = {"content-length": str(8 << 20), "content-type": "application/json"}
    answer = await world.http.post("/v1/chat/completions", content=body, headers=headers)
    error = error_of(answer, 400)
    assert error["code"] == "context_length_exceeded"
    assert body.parts <= 1


async def test_such_a_body_without_a_length_is_read_no_further_and_counts(world: World) -> None:
    world.keys.limit(requests_per_minute=10)
    body = Endless()
    answer = await world.http.post("/v1/chat/completions", content=body)
    assert error_of(answer, 400)["code"] == "context_length_exceeded"
    assert 100_000 * body.parts < BODY_BYTES + BYTES_A_TOKEN * 512 + 300_000
    assert answer.headers["x-ratelimit-remaining-requests"] == "9"


async def test_a_bomb_is_inflated_no_further_than_a_context_could_take_in(world: World) -> None:
    bomb = gzip.compress(b" " * (200 << 20))
    held = 0
    add = world.aside.intake.add

    def counted(tenant: Hashable, size: int) -> None:
        nonlocal held
        add(tenant, size)
        held = max(held, world.aside.intake.held)

    world.aside.intake.add = counted  # type: ignore[method-assign]
    answer = await world.http.post(
        "/v1/chat/completions", content=bomb, headers={"content-encoding": "gzip"}
    )
    assert error_of(answer, 400)["code"] == "context_length_exceeded"
    assert len(bomb) < held <= BODY_BYTES + BYTES_A_TOKEN * 512
    assert world.aside.intake.held == 0


async def test_more_messages_than_the_context_has_tokens_are_refused(world: World) -> None:
    messages = [{"role": "user", "content": ""}] * 513
    error = error_of(await world.chat(messages=messages), 400)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


async def test_messages_whose_surroundings_alone_fill_the_context_are_refused_unrendered(
    world: World,
) -> None:
    world.text.least_a_message = 5
    rendered = []
    conversation = world.text.conversation

    def noted(messages: list[dict[str, Any]], **options: Any) -> Steps[array[int]]:
        rendered.append(len(messages))
        return conversation(messages, **options)

    world.text.conversation = noted  # type: ignore[method-assign]
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    most = world.model.context_length // 5
    error = error_of(await world.chat(messages=said * (most // 2 + 1)), 400)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    answer = await world.http.post(
        "/v1/messages",
        json={"model": MODEL, "max_tokens": 1, "messages": said * (most + 1)},
    )
    assert answer.status_code == 400
    assert "prompt is too long" in answer.json()["error"]["message"]
    assert rendered == []
    await world.chat(messages=said)
    assert rendered == [2]


async def test_results_of_calls_do_not_count_as_messages_with_surroundings(world: World) -> None:
    world.text.least_a_message = 500
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        *[{"role": "tool", "content": "", "tool_call_id": "a"}] * 4,
    ]
    assert (await world.chat(messages=messages)).status_code == 200


async def test_a_list_that_no_context_could_take_in_is_refused_before_it_is_decoded(
    world: World,
) -> None:
    ids = b"1," * BODY_ITEMS
    body = b'{"model": "%b", "prompt": [%b {"no": "id"}]}' % (MODEL.encode(), ids)
    error = error_of(await world.http.post("/v1/completions", content=body, headers=JSON), 400)
    assert error["code"] == "context_length_exceeded"


async def test_more_objects_than_any_prompt_has_are_refused_before_they_are_decoded(
    world: World,
) -> None:
    objects = b"{}," * (BODY_CONTAINERS + 2 * world.model.context_length)
    body = b'{"model": "%b", "messages": [%b 1]}' % (MODEL.encode(), objects)
    error = error_of(await world.http.post("/v1/chat/completions", content=body, headers=JSON), 400)
    assert error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/completions"])
async def test_nothing_of_a_refused_request_waits_for_the_garbage_collector(
    world: World, path: str
) -> None:
    body = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": LONG}]},
        "/v1/messages": {"messages": [{"role": "user", "content": LONG}], "max_tokens": 1},
        "/v1/completions": {"prompt": LONG},
    }[path]
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            answer = await world.http.post(path, json={"model": MODEL, **body})
            assert answer.status_code == 400
        held = [request for request in gc.get_objects() if isinstance(request, REQUESTS)]
    finally:
        gc.enable()
    assert not held


async def test_a_prompt_in_a_list_that_is_too_long_is_named(world: World) -> None:
    error = error_of(await world.complete(prompt=["a", "b" * 600]), 400)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt[1]")
    error = error_of(await world.complete(prompt=[[1], [1] * 600]), 400)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt[1]")


class Aside:
    """A conversation whose template may be slow: it goes aside, then works until nobody waits."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.given_up = 0

    def conversation(
        self,
        messages: list[dict[str, Any]],
        *,
        stopped: Callable[[], bool] = lambda: False,
        **_: Any,
    ) -> Steps[array[int]]:
        self.threads.append(threading.current_thread().name)
        yield ASIDE
        self.threads.append(threading.current_thread().name)
        for _ in range(int(PATIENCE / 0.01)):
            if stopped():
                self.given_up += 1
                raise GivenUp
            time.sleep(0.01)
        return array("i", [65])


@pytest.fixture
def aside(world: World) -> Aside:
    text = Aside()
    world.text.conversation = text.conversation  # type: ignore[method-assign]
    return text


async def test_a_small_body_whose_template_is_slow_leaves_the_event_loop_and_ends_at_its_deadline(
    world: World, aside: Aside
) -> None:
    headers = {"x-headrace-deadline-ms": "200"}
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    answer = await world.http.post("/v1/chat/completions", json=body, headers=headers)
    assert "(waited_too_long)" in error_of(answer, 529)["message"]
    await until(lambda: aside.given_up == 1)  # within the step that ran
    assert aside.threads[0] == threading.current_thread().name
    assert aside.threads[1].startswith("prepare")


async def test_a_client_that_leaves_ends_a_step_that_runs(world: World, aside: Aside) -> None:
    request = asyncio.create_task(world.chat())
    await until(lambda: len(aside.threads) == 2)
    request.cancel()
    await until(lambda: aside.given_up == 1)
