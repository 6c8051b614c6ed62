"""What Anthropic's dialect can be asked, for the inference API's OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.api.anthropic import rate_limits
from headrace.api.anthropic.errors import MessagesError
from headrace.api.anthropic.message import Event, MessageBody, TokenCount
from headrace.api.anthropic.request import NEUTRAL, CountRequest, MessagesRequest
from headrace.api.anthropic.version import HEADER, VERSIONS
from headrace.api.openai.operations import DEADLINE, REFUSALS, neutral_schemas
from headrace.api.openapi import Answer, Body, Header, Operation


def _rate_limit(name: str) -> Header:
    if name.endswith("-reset"):
        whole = {"type": "string", "format": "date-time"}
        return Header(about="When it is whole again.", schema=whole)
    return Header(about="Of the tightest limit.", schema={"type": "integer", "minimum": 0})


RATE_LIMITS = {name: _rate_limit(name) for name in rate_limits.HEADERS}

HEADERS: dict[str, Header] = {
    **RATE_LIMITS,
    "request-id": Header(about="As x-request-id.", schema={"type": "string"}),
}

_ALWAYS = ("x-request-id", "request-id")
_EXTRA = neutral_schemas(NEUTRAL)


def _refusal(answer: Answer, sometimes: tuple[str, ...]) -> Answer:
    return replace(
        answer,
        about=answer.about.replace("`param`", "`message`"),
        body=MessagesError,
        headers=(*answer.headers, "request-id"),
        sometimes=(*answer.sometimes, *sometimes),
    )


_REFUSED: Mapping[int, Answer] = {
    **{s: _refusal(REFUSALS[s], tuple(RATE_LIMITS)) for s in (400, 403, 404, 413, 429, 500, 503)},
    401: _refusal(REFUSALS[401], ()),
    529: _refusal(REFUSALS[529], tuple(RATE_LIMITS)),
}


def _answer(about: str, body: type, events: tuple[object, ...] = ()) -> Answer:
    return Answer(
        about=about,
        body=body,
        events=events,
        headers=(*_ALWAYS, "x-headrace-route"),
        sometimes=tuple(RATE_LIMITS),
    )


OPERATIONS = (
    Operation(
        id="createMessage",
        method="POST",
        path="/v1/messages",
        about=f"Answer messages; `{HEADER}`, where it is sent, is {' or '.join(VERSIONS)}",
        request_headers=DEADLINE,
        body=Body(struct=MessagesRequest, extra=_EXTRA),
        answers={
            200: _answer(
                "The message, or with `stream` its events.", MessageBody, (Event, MessagesError)
            ),
            **_REFUSED,
        },
    ),
    Operation(
        id="countTokens",
        method="POST",
        path="/v1/messages/count_tokens",
        about="Count the tokens of a prompt",
        request_headers=DEADLINE,
        body=Body(struct=CountRequest, extra=_EXTRA),
        answers={200: _answer("All of them, cached or not.", TokenCount), **_REFUSED},
    ),
)
