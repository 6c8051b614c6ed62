"""What the inference API can be asked, for its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.api.openai import rate_limits
from headrace.api.openai.chat import ChatRequest
from headrace.api.openai.chat_completion import ChatCompletion, ChatCompletionChunk
from headrace.api.openai.completions import CompletionRequest
from headrace.api.openai.errors import ErrorBody
from headrace.api.openai.models import ModelCard, ModelList
from headrace.api.openai.neutral import CHAT, COMPLETIONS
from headrace.api.openai.text_completion import TextCompletion, TextCompletionChunk
from headrace.api.openapi import Answer, Body, Header, Operation, Schema
from headrace.api.reader import Neutral


def _rate_limit(name: str) -> Header:
    """Limits of tenants and keys, as OpenAI tells them."""
    if name.startswith("x-ratelimit-reset"):
        return Header(about="Until it is whole again.", schema={"type": "string"})
    return Header(about="Of the tightest limit.", schema={"type": "integer", "minimum": 0})


ABOUT = """OpenAI's API, and messages as Anthropic's has them. Besides what is listed, any \
request may be answered 404 (no such path), 405 (`allow` says what is), 431 (a head of more than \
64 KiB) or 500 (a fault of ours)."""

RATE_LIMITS = {name: _rate_limit(name) for name in rate_limits.HEADERS}

HEADERS: dict[str, Header] = {
    **RATE_LIMITS,
    "x-request-id": Header(
        about="The caller's own, if it is a decent one.", schema={"type": "string"}
    ),
    "x-headrace-route": Header(
        about="The way from the name that was asked to the model's.", schema={"type": "string"}
    ),
    "www-authenticate": Header(about="Always Bearer.", schema={"const": "Bearer"}),
    "x-should-retry": Header(about="Only false.", schema={"const": "false"}),
    "retry-after": Header(about="Seconds.", schema={"type": "integer", "minimum": 1}),
    "retry-after-ms": Header(about="Milliseconds.", schema={"type": "integer", "minimum": 1}),
}

DEADLINE: Mapping[str, Header] = {
    "x-headrace-deadline-ms": Header(
        about="Milliseconds for which the answer's first token is of use.",
        schema={"type": "integer", "minimum": 1, "maximum": 10**9},
    ),
}

ALWAYS = ("x-request-id",)
AGAIN = ("retry-after", "retry-after-ms")
REFUSALS: Mapping[int, Answer] = {
    status: Answer(about=about, body=ErrorBody, headers=(*ALWAYS, *headers), sometimes=sometimes)
    for status, about, headers, sometimes in (
        (400, "Malformed, unknown, out of range or unsupported; `param` says which.", (), ()),
        (401, "No key, or none that is valid.", ("www-authenticate",), ()),
        (403, "The key may not do this.", (), ()),
        (404, "There is no such thing.", (), ()),
        (409, "It does not go with what there is.", (), ()),
        (413, "The body is too large.", (), ()),
        (429, "A limit of the tenant's or the key's own.", (), (*AGAIN, "x-should-retry")),
        (500, "The engine failed, or a fault of ours.", (), ()),
        (503, "Nobody is there to do it.", AGAIN, ()),
        (529, "There is too much work for all of us.", AGAIN, ()),
    )
}


def refusals(*statuses: int) -> dict[int, Answer]:
    return {status: REFUSALS[status] for status in statuses}


_REFUSED = refusals(400, 403, 404, 413, 429, 500, 503, 529)


def _limited(answer: Answer) -> Answer:
    return replace(answer, sometimes=(*answer.sometimes, *RATE_LIMITS))


def neutral_schemas(neutral: Neutral) -> dict[str, Schema]:
    """Schemas of the values by which a parameter changes nothing."""
    return {
        name: {} if values is None else {"enum": [*map(json.loads, values), None]}
        for name, values in neutral.items()
    }


def _generate(
    id: str, path: str, about: str, request: Any, neutral: Neutral, answer: Any, chunk: Any
) -> Operation:
    return Operation(
        id=id,
        method="POST",
        path=path,
        about=about,
        request_headers=DEADLINE,
        body=Body(struct=request, extra=neutral_schemas(neutral)),
        answers={
            200: Answer(
                about="The answer, or with `stream` its events.",
                body=answer,
                events=(chunk, ErrorBody),
                end="[DONE]",
                headers=(*ALWAYS, "x-headrace-route"),
                sometimes=tuple(RATE_LIMITS),
            ),
            **{status: _limited(refusal) for status, refusal in _REFUSED.items()},
            **refusals(401),
        },
    )


def _open(id: str, path: str, about: str, answers: Mapping[int, Answer]) -> Operation:
    return Operation(id=id, method="GET", path=path, about=about, answers=answers, needs_key=False)


def _state(about: str) -> Answer:
    return Answer(about=about, body=dict[str, Any], headers=ALWAYS)


OPERATIONS = (
    _generate(
        "createChatCompletion",
        "/v1/chat/completions",
        "Answer a chat",
        ChatRequest,
        CHAT,
        ChatCompletion,
        ChatCompletionChunk,
    ),
    _generate(
        "createCompletion",
        "/v1/completions",
        "Continue a text",
        CompletionRequest,
        COMPLETIONS,
        TextCompletion,
        TextCompletionChunk,
    ),
    Operation(
        id="listModels",
        method="GET",
        path="/v1/models",
        about="What `model` may name; in Anthropic's shape for who sends `anthropic-version`",
        answers={
            200: Answer(about="All of it.", body=ModelList, headers=ALWAYS),
            **refusals(401, 403, 503),
        },
    ),
    Operation(
        id="retrieveModel",
        method="GET",
        path="/v1/models/{model}",
        about="One that `model` may name; likewise",
        answers={
            200: Answer(about="There is one.", body=ModelCard, headers=ALWAYS),
            **refusals(401, 403, 404, 503),
        },
    ),
    _open("isLive", "/healthz", "Whether the process lives", {200: _state("It does.")}),
    _open(
        "isReady",
        "/readyz",
        "Whether the engine makes progress",
        {200: _state("Its own reading."), 503: _state("It does not; the reason.")},
    ),
    _open(
        "showMetrics",
        "/metrics",
        "Prometheus metrics; where the operator wants it so, for keys with the scope admin alone",
        {
            200: Answer(
                about="In the format that `accept` asks for.",
                texts=("text/plain", "application/openmetrics-text"),
                headers=ALWAYS,
            ),
            **refusals(401, 403, 503),
        },
    ),
    _open("showIndex", "/", "What this is", {200: _state("A hint for people.")}),
    _open("showDocument", "/openapi.json", "This document", {200: _state("The document.")}),
)
