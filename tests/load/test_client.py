from __future__ import annotations

import msgspec
import pytest

from headrace.load.client import LoadError, Overloaded, Refused, Request, Server, complete

from .fake_server import FakeServer, event, token, usage

IDS = Request(prompt=[5, 6, 7], output=2)


async def test_counts_and_arrivals_come_from_the_stream() -> None:
    fake = FakeServer([token("a"), token("b"), usage(3, 2)])
    with fake.running() as server:
        timing = await complete(server, IDS)
    assert (timing.prompt_tokens, timing.tokens, len(timing.arrivals)) == (3, 2, 2)
    assert timing.start <= timing.arrivals[0] <= timing.arrivals[1] <= timing.end
    assert (timing.text, timing.cached_tokens) == ("ab", 0)


async def test_what_came_from_a_cache_is_told_if_the_server_does() -> None:
    counts = {"prompt_tokens": 3, "completion_tokens": 1}
    details = {"prompt_tokens_details": {"cached_tokens": 2}}
    end = event(choices=[], usage=counts | details) + b"data: [DONE]\n\n"
    with FakeServer([token("a"), end]).running() as server:
        assert (await complete(server, IDS)).cached_tokens == 2


async def test_token_ids_are_completed_to_the_exact_length() -> None:
    fake = FakeServer([token("a"), usage(3, 1)])
    with fake.running() as server:
        await complete(server, IDS)
    path, headers, body = fake.requests[0]
    assert path == "/v1/completions"
    assert headers["authorization"] == "Bearer some-key"
    assert body == {
        "model": "some-model",
        "prompt": [5, 6, 7],
        "max_tokens": 2,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_text_is_a_chat_whose_answer_may_have_a_schema() -> None:
    deltas = [{"role": "assistant", "content": ""}, {"content": "{}"}, {}]
    parts = [event(choices=[{"index": 0, "delta": delta}]) for delta in deltas]
    fake = FakeServer([*parts, usage(3, 1)])
    with fake.running() as server:
        timing = await complete(server, Request(prompt="Who?", output=9, schema={"type": "object"}))
    path, _, body = fake.requests[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "Who?"}]
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert "ignore_eos" not in body
    assert len(timing.arrivals) == 1  # neither the role nor the end is a token


async def test_a_line_may_be_split_over_http_chunks() -> None:
    whole = token("a") + token("b") + usage(3, 2)
    fake = FakeServer([whole[:20], whole[20:21], whole[21:]], chunked=True)
    with fake.running() as server:
        timing = await complete(server, IDS)
    assert (timing.tokens, len(timing.arrivals)) == (2, 2)


async def test_without_usage_events_are_counted() -> None:
    fake = FakeServer([token("a"), token("b"), b"data: [DONE]\n\n"])
    with fake.running() as server:
        assert (await complete(server, IDS)).tokens == 2


async def test_a_space_after_data_is_optional_and_comments_are_skipped() -> None:
    fake = FakeServer([b": ping\n\n", token("a").replace(b"data: ", b"data:"), usage(3, 1)])
    with fake.running() as server:
        assert len((await complete(server, IDS)).arrivals) == 1


@pytest.mark.parametrize(("status", "kind"), [(400, Refused), (501, LoadError)])
async def test_a_refusal_quotes_the_answer(status: int, kind: type[LoadError]) -> None:
    fake = FakeServer([b'{"error": "no such thing"}'], status=status)
    with fake.running() as server, pytest.raises(LoadError, match="no such thing") as caught:
        await complete(server, IDS)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([token("a")], "without"),
        ([event(error={"message": "out of luck"})], "out of luck"),
        ([b"data: {broken\n\n"], "broke"),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_broken_stream_is_an_error(
    answer: list[bytes], message: str, chunked: bool
) -> None:
    fake = FakeServer(answer, chunked=chunked)
    with fake.running() as server, pytest.raises(LoadError, match=message):
        await complete(server, IDS)


def test_the_message_is_whole() -> None:
    server = Server(url="https://example.com/base/v1/", model="m", key="k")
    head, _, body = server.message(IDS).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /base/v1/completions HTTP/1.1\r\nhost: example.com\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert msgspec.json.decode(body)["prompt"] == [5, 6, 7]


async def test_too_much_work_is_an_error_of_its_own() -> None:
    body = [b'{"error":{"message":"The queue is full (queue_full)."}}']
    full = pytest.raises(Overloaded, match=r"529.*queue_full")
    with FakeServer(body, status=529).running() as server, full:
        await complete(server, IDS)
