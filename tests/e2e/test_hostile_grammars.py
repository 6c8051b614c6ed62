"""Forms that were made to cost, and a stream beside them that goes on as if there were none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from .conftest import Service

Ask = dict[str, Any]


def _text(**words: object) -> Ask:
    return {"guided_json": {"type": "string", **words}}


def _exponential_one_of(levels: int) -> Ask:
    schema: object = {"type": "string"}
    for level in range(levels):
        names = {f"a{level}": schema, f"b{level}": schema}
        branches = [{"required": [name]} for name in names]
        schema = {"type": "object", "properties": names, "oneOf": branches}
    return {"guided_json": schema}


def _references(levels: int, form: Callable[[dict[str, str]], object]) -> Ask:
    """Each names the next more than once. form: of a reference."""
    defs = {f"d{level}": form({"$ref": f"#/$defs/d{level + 1}"}) for level in range(levels)}
    defs[f"d{levels}"] = {"type": "string"}
    return {"guided_json": {"$defs": defs, "$ref": "#/$defs/d0"}}


def _either_twice(next_one: object) -> object:
    bounds = {"minLength": 3}, {"maxLength": 900}
    return {"allOf": [{"anyOf": [next_one, {"type": "string", **bound}]} for bound in bounds]}


def _pair(next_one: object) -> object:
    names = {"a": next_one, "b": next_one}
    return {"type": "object", "properties": names, "required": list(names)}


def _doubled(levels: int) -> Ask:
    lines = [f"A{level + 1}: A{level} A{level}" for level in range(levels)]
    return {"guided_grammar": "\n".join([f"start: A{levels}", 'A0: "x"', *lines])}


REFUSED: dict[str, Ask] = {
    "parentheses in a pattern": {"guided_regex": "(" * 20_000 + "a" + ")" * 20_000},
    "few enough characters": {"guided_regex": "(" * 9_000 + "a" + ")" * 9_000},
    "parentheses in a schema": _text(pattern="(" * 20_000 + "a" + ")" * 20_000),
    "parentheses in a grammar": {"guided_grammar": "start: " + "(" * 60_000 + '"a"' + ")" * 60_000},
    "parentheses in GBNF": {"guided_grammar": "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000},
    "long texts": _text(minLength=10**30),
    "many items": {"guided_json": {"type": "array", "minItems": 10**9, "items": {}}},
    "repetitions": {"guided_regex": "((a{999}){999}){999}"},
    "repetitions in a grammar": {"guided_grammar": 'start: ((("x"{1000}){1000}){1000})'},
    "alternatives": _exponential_one_of(12),
    "references": _references(25, _either_twice),
    "equal branches": _references(25, lambda next_one: {"oneOf": [next_one] * 2}),
    "a reference to itself": {"guided_json": {"$ref": "#"}},
    "doubled terminals": _doubled(60),
}
ENFORCED: dict[str, Ask] = {
    "texts of any length": _text(maxLength=10**30),
    "a document of any size": _references(25, _pair),
    "cubic": {"guided_grammar": 'start: e\ne: e e | e e e | "a"'},
    "a state for each place": {"guided_regex": ".*a.{9999}"},
}


async def _post(http: httpx.AsyncClient, ask: Ask) -> httpx.Response:
    return await http.post("/v1/completions", json={"prompt": "aaaa", "temperature": 0, **ask})


async def _tokens(http: httpx.AsyncClient, model: str) -> tuple[str, str | None]:
    ask = {"model": model, "prompt": "Once", "max_tokens": 150, "temperature": 0, "stream": True}
    text, finish, done = "", None, False
    async with http.stream("POST", "/v1/completions", json={**ask, "ignore_eos": True}) as answer:
        async for line in answer.aiter_lines():
            done = done or line == "data: [DONE]"
            if line.startswith("data: {"):
                (choice,) = json.loads(line[6:])["choices"]
                text += choice["text"]
                finish = choice["finish_reason"] or finish
    assert done
    return text, finish


@pytest.mark.timeout(120)
async def test_hostile_forms_are_answered_and_a_stream_beside_them_goes_on(
    service: Service,
) -> None:
    async with service.async_http() as http:
        alone = await _tokens(http, service.model)
        beside = asyncio.create_task(_tokens(http, service.model))
        for name, ask in REFUSED.items():
            answer = await _post(http, {"model": service.model, "max_tokens": 8, **ask})
            assert answer.status_code == 400, (name, answer.text[:300])
            assert answer.json()["error"]["param"].partition(".")[0] in ask, (name, answer.text)
        for name, ask in ENFORCED.items():
            answer = await _post(http, {"model": service.model, "max_tokens": 100, **ask})
            assert answer.status_code in (200, 400), (name, answer.text[:300])
            if answer.status_code == 400:
                assert "the grammar" in answer.json()["error"]["message"], name
        schemas = [{"type": "object", "properties": {f"k{i}": {}}} for i in range(100)]
        asks = [{"model": service.model, "max_tokens": 1, "guided_json": each} for each in schemas]
        for some in (asks[:50], asks[50:]):  # of one tenant 64 may wait to be compiled
            answers = await asyncio.gather(*[_post(http, ask) for ask in some])
            assert [answer.status_code for answer in answers] == [200] * 50
        assert await beside == alone
    assert alone[1] == "length"
    service.await_idle()
