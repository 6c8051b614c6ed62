"""Names of models over HTTP: what is chosen, what is told of it, and what is hidden."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from headrace.access.price import Price, Rates
from tests.edge.fakes import MODEL, World, error_of


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        running.also(name="clever", version="v7", tier="large", tools=True, reasoning=True)
        running.also(name=MODEL, version="v0", current=False)
        yield running
        await running.idle()


def allow(world: World, **fields: Any) -> None:
    world.keys.tenant = replace(world.keys.tenant, **fields)


async def went(world: World, model: str, **fields: Any) -> tuple[str, str]:
    """The model that answered, by the answer's word, and the way there."""
    response = await world.chat(model=model, max_tokens=1, **fields)
    assert response.status_code == 200, response.text
    return response.json()["model"], response.headers["x-headrace-route"]


async def test_the_answer_names_the_model_and_the_header_the_way(world: World) -> None:
    allow(world, aliases={"gpt-4o": "large"}, pins={MODEL: "v0"})
    assert await went(world, "clever") == ("clever", "clever -> clever@v7")
    assert await went(world, "gpt-4o") == ("clever", "alias gpt-4o -> large -> clever@v7")
    assert await went(world, MODEL) == (MODEL, f"{MODEL} (pin) -> {MODEL}@v0")
    assert await went(world, f"{MODEL}@v1") == (MODEL, f"{MODEL}@v1")
    streamed = await world.chat(model="gpt-4o", max_tokens=1, stream=True)
    assert streamed.headers["x-headrace-route"].endswith("clever@v7")
    charged = [(charge.model, charge.model_version) for charge in world.books.opened.values()]
    assert charged[2] == (MODEL, "v0")


async def test_a_model_that_is_not_allowed_is_one_that_is_not_there(world: World) -> None:
    allow(world, models=frozenset({MODEL}))
    for name in ("clever", "clever@v7", "large"):
        hidden, unknown = [
            error_of(await world.chat(model=each), 404)["message"] for each in (name, "nope")
        ]
        assert hidden.replace(name, "nope") == unknown
        response = await world.http.get(f"/v1/models/{name}")
        assert error_of(response, 404)["message"] == hidden
    assert await went(world, "auto") == (MODEL, f"auto -> {MODEL}@v1")


async def test_the_list_has_what_may_be_named(world: World) -> None:
    allow(world, aliases={"fast": MODEL, "circle": "circle", "hidden": "nope"})

    async def listed() -> list[str]:
        cards = (await world.http.get("/v1/models")).json()["data"]
        return [card["id"] for card in cards]

    assert await listed() == [MODEL, "clever", "fast"]
    for name in (MODEL, f"{MODEL}@v0", "fast", "large", "auto"):
        assert (await world.http.get(f"/v1/models/{name}")).json()["id"] == name
    for name in (f"{MODEL}@v9", "circle", "small"):
        error_of(await world.http.get(f"/v1/models/{name}"), 404)
    allow(world, models=frozenset({"clever"}))
    assert await listed() == ["clever"]


async def test_demands_choose_and_refuse(world: World) -> None:
    rates = Rates(input=1000, cached_input=0, output=2000)
    world.prices.tag = Price(id=UUID(int=3), model="*", version=1, valid_from=0, rates=rates)
    for ask in (world.chat, world.complete):
        response = await ask(model="auto", max_tokens=1, route={"capabilities": ["tools"]})
        assert response.headers["x-headrace-route"] == "auto -> clever@v7"
        for limits in ({"input": 1.0}, {"input": 1, "output": 2.0}):
            route = {"max_price": limits, "context_length": 512}
            assert (await ask(model="auto", max_tokens=1, route=route)).status_code == 200
        for route in (
            {"max_price": {"input": 0.999}},
            {"max_price": {"output": 1.9999}},
            {"context_length": 513},
        ):
            error = error_of(await ask(model="auto", max_tokens=1, route=route), 400)
            assert (error["param"], error["code"]) == ("route", "no_model_fits")
        demanded = {"capabilities": ["reasoning"]}
        error = error_of(await ask(max_tokens=1, route=demanded), 400)
        assert f"{MODEL} (reasoning)" in error["message"]


@pytest.mark.parametrize(
    ("route", "param"),
    [
        (3, "route"),
        ({"cheap": True}, "route.cheap"),
        ({"capabilities": ["vision"]}, "route.capabilities[0]"),
        ({"max_price": {"input": -1}}, "route.max_price.input"),
        ({"max_price": {"input": "1"}}, "route.max_price.input"),
        ({"max_price": {"total": 1}}, "route.max_price.total"),
        ({"context_length": 0}, "route.context_length"),
    ],
)
async def test_demands_are_read_strictly(world: World, route: object, param: str) -> None:
    assert error_of(await world.chat(route=route), 400)["param"] == param


async def test_a_circle_of_aliases_is_told(world: World) -> None:
    allow(world, aliases={"a": "b", "b": "a"})
    assert "a -> b -> a" in error_of(await world.chat(model="a"), 404)["message"]


async def test_readyz_tells_of_every_model(world: World) -> None:
    body = (await world.http.get("/readyz")).json()
    assert [(m["name"], m["version"], m["state"]) for m in body["models"]] == [
        (MODEL, "v1", "ready"),
        ("clever", "v7", "ready"),
        (MODEL, "v0", "ready"),
    ]
    assert body["engine"] == body["models"][0]["engine"]
    assert (await world.http.get("/")).json()["models"] == [MODEL, "clever"]
    world.models.draining = True
    refused = await world.http.get("/readyz")
    assert refused.status_code == 503
    assert refused.json()["reason"] == "the service is shutting down"
