from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.anthropic.answer import MessageAnswer
from headrace.api.anthropic.errors import error_body
from headrace.api.anthropic.message import Event, MessageBody
from headrace.api.anthropic.rate_limits import moment
from headrace.api.openai import errors
from headrace.api.openai.answer import Call, Choice, Head
from headrace.api.openai.usage import make_usage
from headrace.text.tools.format import FORMATS
from headrace.text.tools.parser import CallDelta, CallParser, Parsed

HEAD = Head(id="msg_1", created=17, model="m", fingerprint="fp_1", service_tier="flex")
USAGE = make_usage(prompt=5, completion=7, cached=2, reasoning=3)
SAID = (
    'Let me see.\n<tool_call>\n{"name": "pick", "arguments": {"n": "é{"}}\n</tool_call>\n'
    'And now\n<tool_call>\n{"name": "pick", "arguments": {}}\n</tool_call> so'
)
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "Let me see."},
    {"type": "tool_use", "id": "toolu_0", "name": "pick", "input": {"n": "é{"}},
    {"type": "text", "text": "And now"},
    {"type": "tool_use", "id": "toolu_1", "name": "pick", "input": {}},
    {"type": "text", "text": "so"},
]


def parsed(events: bytes) -> list[Any]:
    """The events' data, each under its own name and of its shape."""
    found = []
    for event in events.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        told: Any = msgspec.to_builtins(msgspec.convert(value, Event))
        assert told == value
        found.append(value)
    return found


def put_together(events: list[Any]) -> list[Any]:
    """The blocks of a stream, whose events come in the order that Anthropic's have."""
    blocks: list[Any] = []
    inputs: dict[int, str] = {}
    opened = False
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert (event["index"], opened) == (len(blocks), False)
                blocks.append(event["content_block"])
                opened = True
            case "content_block_delta":
                assert (event["index"], opened) == (len(blocks) - 1, True)
                delta = event["delta"]
                if delta["type"] == "input_json_delta":
                    inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
                else:
                    field = delta["type"].removesuffix("_delta")
                    blocks[-1][field] += delta[field]
            case "content_block_stop":
                assert (event["index"], opened) == (len(blocks) - 1, True)
                opened = False
    assert not opened
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text)
    return blocks


def told(pieces: Iterable[str]) -> Iterable[Parsed]:
    """What a model says in these pieces."""
    numbers = count()
    parser = CallParser(FORMATS["hermes"], ["pick"], lambda: f"toolu_{next(numbers)}")
    for piece in pieces:
        yield parser.feed(piece)
    yield parser.finish()


def streamed(said: Iterable[Parsed]) -> list[Any]:
    answer = MessageAnswer(HEAD, 5)
    events = answer.opening(0, None)
    for part in said:
        if part.content or part.calls:
            events += answer.delta(0, part.content, None, "", part.calls)
    return put_together(parsed(events + answer.closing(0, "tool_calls")))


@given(st.sets(st.integers(0, len(SAID))))
def test_however_a_text_is_cut_its_blocks_are_the_same(cuts: set[int]) -> None:
    ends = sorted({0, *cuts, len(SAID)})
    pieces = [SAID[start:end] for start, end in pairwise(ends)]
    assert streamed(told(pieces)) == BLOCKS
    whole = Parsed()
    for part in told(pieces):
        whole.add(part)
    assert streamed([whole]) == BLOCKS


@given(st.lists(st.text(min_size=1)), st.lists(st.text(min_size=1)))
def test_any_text_and_thoughts_survive(thoughts: list[str], texts: list[str]) -> None:
    answer = MessageAnswer(HEAD, 5)
    events = b"".join(answer.delta(0, "", None, thought) for thought in thoughts)
    events += b"".join(answer.delta(0, text, None) for text in texts)
    blocks = put_together(parsed(events + answer.closing(0, "stop")))
    expected: list[Any] = []
    if thoughts:
        expected.append({"type": "thinking", "thinking": "".join(thoughts), "signature": ""})
    if texts:
        expected.append({"type": "text", "text": "".join(texts)})
    assert blocks == expected


def test_a_stream_begins_and_ends_as_anthropics() -> None:
    answer = MessageAnswer(HEAD, 5)
    (start,) = parsed(answer.beginning())
    message = start["message"]
    assert (message["id"], message["model"], message["content"]) == ("msg_1", "m", [])
    assert (message["role"], message["stop_reason"]) == ("assistant", None)
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (5, 0)
    assert answer.closing(0, "stop", "END") == b""
    delta, stop = parsed(answer.ending(USAGE))
    assert delta["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert delta["usage"] == {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
        "service_tier": "batch",
    }
    assert stop == {"type": "message_stop"}


def test_a_signature_ends_thoughts() -> None:
    answer = MessageAnswer(HEAD, 5)
    events = parsed(answer.delta(0, "a", None, "b"))
    assert [event.get("delta", {}).get("type") for event in events] == [
        *(None, "thinking_delta", "signature_delta", None),
        *(None, "text_delta"),
    ]


@pytest.mark.parametrize(
    ("reason", "stop", "expected"),
    [
        ("stop", None, "end_turn"),
        ("length", None, "max_tokens"),
        ("tool_calls", None, "tool_use"),
        ("stop", "END", "stop_sequence"),
    ],
)
def test_why_a_whole_message_ended(reason: str, stop: str | None, expected: str) -> None:
    choice = Choice(0, "a", reason, stop=stop)
    body = json.loads(MessageAnswer(HEAD, 5).whole([choice], USAGE))
    assert (body["stop_reason"], body["stop_sequence"]) == (expected, stop)
    shaped: Any = msgspec.to_builtins(msgspec.convert(body, MessageBody))
    assert shaped == body


def test_a_whole_message_has_its_blocks_in_order() -> None:
    calls = [Call("toolu_0", "pick", ['{"n"', ":1}"], at=3), Call("toolu_1", "pick", ['{"n'], at=3)]
    choice = Choice(0, "one two", "length", reasoning="hm", calls=calls)
    body = json.loads(MessageAnswer(HEAD, 5).whole([choice], USAGE))
    assert body["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "one"},
        {"type": "tool_use", "id": "toolu_0", "name": "pick", "input": {"n": 1}},
        {"type": "tool_use", "id": "toolu_1", "name": "pick", "input": {}},  # cut off
        {"type": "text", "text": " two"},
    ]
    body = json.loads(MessageAnswer(HEAD, 5).whole([Choice(0, "", "stop")], USAGE))
    assert body["content"] == []


def test_parts_added_up_keep_calls_where_they_stand() -> None:
    parts = Parsed("ab", [CallDelta(0, "x", "f", "{", at=1)])
    parts.add(Parsed("cd", [CallDelta(0, arguments="}"), CallDelta(1, "y", "f", "{}", at=1)]))
    assert [(call.at, call.arguments) for call in parts.calls] == [(1, "{}"), (3, "{}")]


@pytest.mark.parametrize(
    ("error", "type"),
    [
        (errors.invalid_request("a", "b"), "invalid_request_error"),
        (errors.invalid_api_key("a"), "authentication_error"),
        (errors.permission_denied("a"), "permission_error"),
        (errors.model_not_found("a"), "not_found_error"),
        (errors.method_not_allowed("a", "b", "c"), "invalid_request_error"),
        (errors.body_too_large(1), "invalid_request_error"),
        (errors.head_too_large(1), "invalid_request_error"),
        (errors.rate_limited("a", "requests", after=1, final=False), "rate_limit_error"),
        (errors.rate_limited("a", "insufficient_quota", after=1, final=True), "rate_limit_error"),
        (errors.overloaded("queue_full", "a", 1), "overloaded_error"),
        (errors.unavailable("no_worker", "a", 1), "api_error"),
        (errors.engine_failed("a"), "api_error"),
        (errors.internal_error("a"), "api_error"),
    ],
)
def test_errors_are_of_anthropics_types(error: errors.ApiError, type: str) -> None:
    assert json.loads(error_body(error, "req_1")) == {
        "type": "error",
        "error": {"type": type, "message": error.detail.message},
        "request_id": "req_1",
    }


def test_moments_are_whole_seconds_that_are_not_too_early() -> None:
    assert moment(1769860800) == "2026-01-31T12:00:00Z"
    assert moment(1769860800.001) == "2026-01-31T12:00:01Z"
