from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from headrace.api.openapi import Answer, Body, Header, Operation, make_document


class Wish(msgspec.Struct, kw_only=True):
    name: Annotated[str, Meta(pattern="^[a-z]+\\Z")]
    count: int = 1
    kind: str | None = None


class Sought(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1)] = 5
    after: str | UnsetType = UNSET


class Thing(msgspec.Struct, kw_only=True):
    id: str
    object: Literal["thing"] = "thing"
    note: str | UnsetType = UNSET


def operation(**more: Any) -> Operation:
    answer = Answer(about="Done.", body=Thing, headers=["x-id"], sometimes=["x-way"])
    fields: dict[str, Any] = {"answers": {200: answer}, "body": Body(struct=Wish)} | more
    return Operation(id="make", method="POST", path="/things/{id}", about="Make one", **fields)


def document(*operations: Operation) -> Any:
    text = Header(about="A word.", schema={"type": "string"})
    return make_document("T", "About.", "1", operations, {"x-id": text, "x-way": text})


def test_bodies_are_as_strict_as_their_reader() -> None:
    schemas = document(operation())["components"]["schemas"]
    assert schemas["Wish"]["additionalProperties"] is False
    assert schemas["Wish"]["required"] == ["name"]
    properties = schemas["Wish"]["properties"]
    assert properties["name"] == {"type": "string", "pattern": "^[a-z]+$"}
    assert properties["count"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 1}
    assert properties["kind"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_where_null_is_a_value_it_is_not_let_through() -> None:
    body = Body(struct=Wish, null_is_absent=False, extra={"more": {"const": 1}})
    properties = document(operation(body=body))["components"]["schemas"]["Wish"]["properties"]
    assert properties["count"] == {"type": "integer", "default": 1}
    assert properties["more"] == {"const": 1}


def test_answers_have_all_but_what_may_be_unset() -> None:
    thing = document(operation())["components"]["schemas"]["Thing"]
    assert thing["required"] == ["id", "object"]
    assert "default" not in thing["properties"]["object"]


def test_operations_are_told() -> None:
    told = document(operation(query=Sought))["paths"]["/things/{id}"]["post"]
    assert told["security"] == [{"key": []}]
    where, limit, after = told["parameters"]
    assert (where["name"], where["in"], where["required"]) == ("id", "path", True)
    assert limit["schema"] == {"type": "integer", "minimum": 1, "default": 5}
    assert (after["in"], after["required"], after["schema"]) == ("query", False, {"type": "string"})
    body = told["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/Wish"}
    headers = told["responses"]["200"]["headers"]
    assert [headers[name]["required"] for name in ("x-id", "x-way")] == [True, False]


def test_events_are_texts_of_json_up_to_the_last() -> None:
    answer = Answer(about="Events.", events=[Thing], end="[DONE]")
    told = document(operation(answers={200: answer}))["paths"]["/things/{id}"]["post"]
    item = told["responses"]["200"]["content"]["text/event-stream"]["itemSchema"]
    one, last = item["properties"]["data"]["anyOf"]
    assert one["contentSchema"] == {"$ref": "#/components/schemas/Thing"}
    assert last == {"const": "[DONE]"}


def test_two_structs_of_one_name_are_refused() -> None:
    other = msgspec.defstruct("Wish", [("size", int)])
    with pytest.raises(ValueError, match="Wish"):
        document(operation(answers={200: Answer(about="", body=other)}))
