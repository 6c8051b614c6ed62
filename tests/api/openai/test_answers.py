from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api import sse
from headrace.api.openai.answer import Answer, Choice, Head
from headrace.api.openai.chat_answer import ChatAnswer
from headrace.api.openai.completion_answer import CompletionAnswer, TextOffsets
from headrace.api.openai.errors import (
    ContextLengthExceeded,
    internal_error,
    invalid_api_key,
    overloaded,
)
from headrace.api.openai.usage import make_usage
from headrace.engine.output import TokenLogprob

HEAD = Head(id="x-1", created=17, model="m", fingerprint="fp_1")
USAGE = make_usage(prompt=5, completion=7, cached=2)
NAME = {2: "<end>", 3: "<other>"}.__getitem__
ANSWERS = [ChatAnswer, CompletionAnswer]


def parsed(event: bytes) -> Any:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2
    return json.loads(event[6:])


@pytest.mark.parametrize("kind", ANSWERS)
@given(text=st.text(), index=st.integers(0, 200))
def test_any_text_survives_a_chunk(kind: Any, text: str, index: int) -> None:
    answer: Answer = kind(HEAD, include_usage=False, names=NAME)
    chunk = parsed(answer.delta(index, text, None))
    (choice,) = chunk["choices"]
    sent = choice["delta"]["content"] if "delta" in choice else choice["text"]
    assert (choice["index"], sent, choice["finish_reason"]) == (index, text, None)
    assert "usage" not in chunk
    assert (chunk["id"], chunk["created"], chunk["model"]) == ("x-1", 17, "m")


@pytest.mark.parametrize("kind", ANSWERS)
def test_usage_is_null_until_its_own_chunk(kind: Any) -> None:
    answer: Answer = kind(HEAD, include_usage=True, names=NAME)
    assert parsed(answer.delta(0, "a", None))["usage"] is None
    assert parsed(answer.closing(0, "stop"))["usage"] is None
    ending = answer.ending(USAGE)
    assert ending.endswith(sse.DONE)
    last = parsed(ending.removesuffix(sse.DONE))
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 5
    assert last["usage"]["completion_tokens"] == 7
    assert last["usage"]["total_tokens"] == 12
    assert last["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert last["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


def test_a_chat_stream_opens_with_the_role_and_ends_with_an_empty_delta() -> None:
    answer = ChatAnswer(HEAD, include_usage=False, names=NAME)
    opening = parsed(answer.opening(2, None))
    assert opening["object"] == "chat.completion.chunk"
    assert opening["choices"][0]["delta"]["role"] == "assistant"
    assert opening["choices"][0]["delta"]["content"] == ""
    closing = parsed(answer.closing(2, "length"))["choices"][0]
    assert (closing["delta"], closing["finish_reason"], closing["index"]) == ({}, "length", 2)


def test_a_whole_chat() -> None:
    body = json.loads(
        ChatAnswer(HEAD, include_usage=False, names=NAME).whole([Choice(0, "é", "stop")], USAGE)
    )
    assert body["object"] == "chat.completion"
    assert body["system_fingerprint"] == "fp_1"
    assert body["usage"]["total_tokens"] == 12
    message = {"role": "assistant", "content": "é", "refusal": None}
    expected = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    assert body["choices"] == [expected]


def test_chat_logprobs_show_bytes_of_part_characters_and_no_infinity() -> None:
    entry = TokenLogprob(token=5, logprob=-0.5, piece=b"\xe4\xbd", top=[(6, -math.inf, b" a")])
    chunk = parsed(ChatAnswer(HEAD, include_usage=False, names=NAME).delta(0, "", [entry]))
    logprobs = chunk["choices"][0]["logprobs"]
    other = {"token": " a", "logprob": -9999.0, "bytes": [32, 97]}
    content = {"token": "\\xe4\\xbd", "logprob": -0.5, "bytes": [228, 189], "top_logprobs": [other]}
    assert logprobs == {"content": [content], "refusal": None}


def test_completion_logprobs_without_alternatives_have_none() -> None:
    """LP-02: the object is there, its alternatives are null."""
    entry = TokenLogprob(token=5, logprob=-0.5, piece=b"a", top=[])
    answer = CompletionAnswer(HEAD, include_usage=False, names=NAME)
    logprobs = parsed(answer.delta(0, "a", [entry]))["choices"][0]["logprobs"]
    assert (logprobs["token_logprobs"], logprobs["top_logprobs"]) == ([-0.5], None)


def test_completion_logprobs_are_parallel_lists_with_running_offsets() -> None:
    answer = CompletionAnswer(
        HEAD, include_usage=False, names=NAME, echoes=["", "ab"], alternatives=True
    )
    entries = [
        TokenLogprob(token=5, logprob=-1.0, piece=b" one", top=[(7, -0.5, b" two")]),
        TokenLogprob(token=6, logprob=math.nan, piece=b"!", top=[]),
    ]
    first = parsed(answer.delta(1, " one", entries[:1]))["choices"][0]["logprobs"]
    second = parsed(answer.delta(1, "!", entries[1:]))["choices"][0]["logprobs"]
    assert first["tokens"] == [" one"]
    assert first["top_logprobs"] == [{" two": -0.5, " one": -1.0}]
    assert first["text_offset"] == [2]
    assert second["text_offset"] == [6]
    assert second["token_logprobs"] == [-9999.0]


def test_offsets_count_characters_and_not_bytes_or_what_stands_for_them() -> None:
    offsets = TextOffsets(2)
    pieces = ["é".encode(), "你".encode()[:1], "你".encode()[1:], b"", b"ab", b"c"]
    assert [offsets.take(piece) for piece in pieces] == [2, 3, 3, 4, 4, 6]


def test_tokens_without_bytes_go_by_their_names_and_stay_apart() -> None:
    entry = TokenLogprob(token=2, logprob=-0.5, piece=b"", top=[(2, -0.5, b""), (3, -0.9, b"")])
    chat = parsed(ChatAnswer(HEAD, include_usage=False, names=NAME).delta(0, "", [entry]))
    (found,) = chat["choices"][0]["logprobs"]["content"]
    assert (found["token"], found["bytes"]) == ("<end>", None)
    assert [other["token"] for other in found["top_logprobs"]] == ["<end>", "<other>"]
    completion = CompletionAnswer(HEAD, include_usage=False, names=NAME, alternatives=True)
    older = parsed(completion.delta(0, "", [entry]))
    logprobs = older["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == [{"<other>": -0.9, "<end>": -0.5}]


def test_an_echo_brings_its_tokens_logprobs_streamed_and_not() -> None:
    first = TokenLogprob(token=5, logprob=None, piece=b" On", top=[])
    second = TokenLogprob(token=6, logprob=-2.0, piece=b"ce", top=[(7, -1.0, b"ly")])
    answer = CompletionAnswer(
        HEAD, include_usage=False, names=NAME, echoes=["Once"], alternatives=True
    )
    opening = parsed(answer.opening(0, [first, second]))["choices"][0]
    echoed = {
        "tokens": [" On", "ce"],
        "token_logprobs": [None, -2.0],
        "top_logprobs": [None, {"ly": -1.0, "ce": -2.0}],
        "text_offset": [0, 2],
    }
    assert (opening["text"], opening["logprobs"]) == ("Once", echoed)
    more = TokenLogprob(token=8, logprob=-0.5, piece=b" more", top=[(8, -0.5, b" more")])
    whole = Choice(0, " more", "length", logprobs=[more], prompt_logprobs=[first, second])
    choice = json.loads(answer.whole([whole], USAGE))["choices"][0]
    assert choice["text"] == "Once more"
    assert choice["logprobs"]["token_logprobs"] == [None, -2.0, -0.5]
    assert choice["logprobs"]["top_logprobs"] == [*echoed["top_logprobs"], {" more": -0.5}]
    assert choice["logprobs"]["text_offset"] == [0, 2, 4]


def test_an_echo_of_one_token_beside_alternatives_of_the_next() -> None:
    answer = CompletionAnswer(
        HEAD, include_usage=False, names=NAME, echoes=["On"], alternatives=True
    )
    first = TokenLogprob(token=5, logprob=None, piece=b"On", top=[])
    more = TokenLogprob(token=8, logprob=-0.5, piece=b"ce", top=[(8, -0.5, b"ce")])
    whole = Choice(0, "ce", "length", logprobs=[more], prompt_logprobs=[first])
    logprobs = json.loads(answer.whole([whole], USAGE))["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == [None, {"ce": -0.5}]


def test_an_echo_of_one_token_has_a_list_of_alternatives_whole_and_streamed() -> None:
    first = TokenLogprob(token=5, logprob=None, piece=b"Yes", top=[])
    names: Any = {"names": NAME, "include_usage": False, "echoes": ["Yes", "Yes"]}
    answer = CompletionAnswer(HEAD, alternatives=True, **names)
    batch = [Choice(i, "", "length", logprobs=[], prompt_logprobs=[first]) for i in range(2)]
    for choice in json.loads(answer.whole(batch, USAGE))["choices"]:
        assert choice["logprobs"]["top_logprobs"] == [None]
    opening = parsed(answer.opening(1, [first]))["choices"][0]["logprobs"]
    assert opening["top_logprobs"] == [None]
    unasked = CompletionAnswer(HEAD, **names)
    opening = parsed(unasked.opening(1, [first]))["choices"][0]["logprobs"]
    assert opening["top_logprobs"] is None


def test_echoes_come_first_streamed_and_not() -> None:
    answer = CompletionAnswer(HEAD, include_usage=False, names=NAME, echoes=["Once", ""])
    assert parsed(answer.opening(0, None))["choices"][0]["text"] == "Once"
    assert answer.opening(1, None) == b""
    body = json.loads(answer.whole([Choice(0, " more", "length")], USAGE))
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == "Once more"


def test_errors_have_all_four_fields_and_their_headers() -> None:
    error = invalid_api_key("Incorrect API key provided.")
    assert json.loads(error.body()) == {
        "error": {
            "message": "Incorrect API key provided.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        }
    }
    assert error.headers["www-authenticate"] == "Bearer"
    busy = overloaded("queue_full", "8 requests wait", 1.2)
    assert (busy.status, busy.headers) == (529, {"retry-after": "2", "retry-after-ms": "1200"})
    assert "queue_full" in busy.detail.message
    assert "req_1" in internal_error("req_1").detail.message


def test_a_long_prompt_is_told_its_numbers() -> None:
    error = ContextLengthExceeded(2048, 2000, 100, "messages")
    assert (error.status, error.detail.code) == (400, "context_length_exceeded")
    for number in ("2048", "2100", "2000", "100"):
        assert number in error.detail.message
    bound = ContextLengthExceeded(2048, 9000, 100, "messages", exact=False)
    assert "at least 9100 tokens (at least 9000 in the prompt" in bound.detail.message
