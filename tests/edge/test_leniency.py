"""docs/leniency.md against the service, the request structs and OpenAI's description."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
import yaml

from headrace.api.anthropic.request import NEUTRAL, CountRequest, MessagesRequest
from headrace.api.openai.chat import ChatRequest
from headrace.api.openai.completions import CompletionRequest
from headrace.api.openai.neutral import CHAT, COMPLETIONS
from headrace.api.reader import Neutral
from tests.edge.fakes import MODEL, World

PAGE = Path(__file__).parents[2] / "docs" / "leniency.md"
_STEP = re.compile(r"(?P<name>[^.\[\]]+)(?:\[(?P<kind>[^\]]*)\])?\.?")
_VALUE = re.compile(r"`([^`]*)`")
_WITH = re.compile(r"with `(\{[^`]*\})`")

PICK: Any = {"name": "pick", "parameters": {"type": "object", "properties": {}}}
TEXT: Any = {"type": "text", "text": "a"}
CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "pick", "arguments": "{}"}}
REFUSAL: Any = {"type": "refusal", "refusal": "c"}
USE: Any = {"type": "tool_use", "id": "toolu_1", "name": "pick", "input": {}}
RESULT: Any = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [TEXT]}
THOUGHT: Any = {"type": "thinking", "thinking": "hm", "signature": "s"}

BODIES: dict[str, Any] = {
    "Chat": {
        "messages": [
            {"role": "system", "content": [TEXT, REFUSAL]},
            {"role": "developer", "content": [TEXT, REFUSAL]},
            {"role": "user", "content": [TEXT, REFUSAL]},
            {"role": "assistant", "content": [TEXT, REFUSAL], "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": [TEXT, REFUSAL]},
            {"role": "user", "content": "b"},
        ],
        "tools": [{"type": "function", "function": PICK}],
        "max_tokens": 4,
    },
    "Completions": {"prompt": "a", "max_tokens": 4},
    "Messages": {
        "system": [TEXT],
        "messages": [
            {"role": "user", "content": [TEXT]},
            {"role": "assistant", "content": [THOUGHT, TEXT, USE]},
            {"role": "user", "content": [RESULT, TEXT]},
        ],
        "tools": [{"name": "pick", "input_schema": PICK["parameters"]}],
        "max_tokens": 4,
    },
}
BODIES["Counts"] = {name: BODIES["Messages"][name] for name in ("system", "messages", "tools")}
PATHS = {
    "Chat": "/v1/chat/completions",
    "Completions": "/v1/completions",
    "Messages": "/v1/messages",
    "Counts": "/v1/messages/count_tokens",
    "Headers": "/v1/messages",
}


@dataclass(frozen=True)
class Row:
    """field: its path. The three kinds of values as they are written. beside: sent with them."""

    field: str
    honoured: tuple[str, ...]
    neutral: tuple[str, ...]
    refused: tuple[str, ...]
    neutral_text: str
    beside: Any

    @property
    def fields(self) -> list[str]:
        """With alternatives written out."""
        found = re.search(r"\[([^\]]*,[^\]]*)\]", self.field)
        if found is None:
            return [self.field]
        return [self.field.replace(found[0], f"[{kind}]") for kind in found[1].split(",")]


def tables() -> dict[str, list[Row]]:
    """By heading."""
    found: dict[str, list[Row]] = {}
    heading = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            field, *kinds, notes = (*cells, "")[:5]
            beside = _WITH.search(notes)
            found.setdefault(heading, []).append(
                Row(
                    field.strip("`"),
                    *(tuple(_VALUE.findall(kind)) for kind in kinds),  # type: ignore[arg-type]
                    kinds[1],
                    json.loads(beside[1]) if beside else {},
                )
            )
    return found


TABLES = tables()


def put(body: Any, path: str, value: Any) -> None:
    """Set a field in the first item that the path's selectors fit, or add an item to a list."""
    steps = [(m["name"], m["kind"]) for m in _STEP.finditer(path)]
    for at, (name, kind) in enumerate(steps):
        last = at == len(steps) - 1
        if kind is None:
            if last:
                body[name] = value
                return
            body = body.setdefault(name, {})
            continue
        items = body.setdefault(name, [])
        if last:
            items.insert(0 if kind != "file" else len(items), value)
            return
        body = next(item for item in items if fits(item, kind) and fits_on(item, steps[at + 1 :]))


def fits(item: Any, kind: str) -> bool:
    return not kind or kind in (item.get("role"), item.get("type"))


def fits_on(item: Any, steps: list[tuple[str, str | None]]) -> bool:
    """Whether the item has what the next selector asks for."""
    name, kind = steps[0]
    if not kind or len(steps) == 1:
        return True
    inner = item.get(name)
    return isinstance(inner, list) and any(fits(each, kind) for each in inner)


def merge(body: Any, more: Any) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(body.get(name), dict):
            merge(body[name], value)
        else:
            body[name] = copy.deepcopy(value)


def body_of(table: str, field: str, beside: Any, value: Any) -> Any:
    base: dict[str, Any] = {"model": MODEL, **copy.deepcopy(BODIES[table])}
    if not field.startswith(("tool", "parallel", "messages[")) and table == "Chat":
        del base["tools"]
    if field == "tools" and table == "Messages":
        base["messages"] = base["messages"][:1]
    merge(base, beside)
    if field.startswith("messages[assistant]") and "messages" in beside:
        base["messages"].append({"role": "user", "content": "b"})
    put(base, field, value)
    return base


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        running.text.marker = "<mark>"
        running.also(name="thinker", reasoning=True)
        running.say("ok")
        yield running
        await running.idle()


async def send(world: World, table: str, body: Any) -> tuple[int, str]:
    """The status, and what an error says of the field."""
    response = await world.http.post(PATHS[table], json=body)
    if response.status_code == 200:
        return 200, ""
    error = response.json()["error"]
    return response.status_code, f"{error.get('param')} {error['message']}"


def rows(table: str) -> Iterator[Row]:
    yield from TABLES[table]
    if table == "Counts":
        known = set(get_type_hints(CountRequest)) | set(NEUTRAL)
        own = {row.field for row in TABLES[table]}
        for row in TABLES["Messages"]:
            if re.split(r"[.\[]", row.field)[0] in known - own:
                yield row


@pytest.mark.parametrize("table", BODIES)
async def test_every_value_on_the_page_is_answered_as_it_says(world: World, table: str) -> None:
    wrong: list[str] = []
    for row in rows(table):
        if row.field == "thinking.budget_tokens" and table == "Counts":
            continue  # it is bounded by max_tokens
        for field in row.fields:
            for value in (*row.honoured, *row.neutral):
                body = body_of(table, field, row.beside, json.loads(value))
                status, said = await send(world, table, body)
                if status != 200:
                    wrong.append(f"{field} = {value}: {status} {said}")
            for value in row.refused:
                body = body_of(table, field, row.beside, json.loads(value))
                status, said = await send(world, table, body)
                name = re.split(r"[.\[\]]+", field.rstrip("]"))[-1]
                named = name in said or field.split("[")[0] in said
                if status not in (400, 404) or not named:
                    wrong.append(f"{field} = {value}: {status} {said}, not refused by name")
    assert not wrong, "\n".join(wrong)


async def test_every_header_on_the_page_is_answered_as_it_says(world: World) -> None:
    body = {"model": MODEL, **BODIES["Messages"]}
    for row in TABLES["Headers"]:
        for value in (*row.honoured, *row.neutral):
            response = await world.http.post(
                "/v1/messages?beta=true", json=body, headers={row.field: value}
            )
            assert response.status_code == 200, (row.field, value, response.text)
        for value in row.refused:
            response = await world.http.post("/v1/messages", json=body, headers={row.field: value})
            assert response.status_code in (400, 401), (row.field, value)


@pytest.mark.parametrize(
    ("table", "neutral"),
    [("Chat", CHAT), ("Completions", COMPLETIONS), ("Messages", NEUTRAL)],
)
def test_the_page_has_every_neutral_value_of_the_code(table: str, neutral: Neutral) -> None:
    on_page = {row.field: row for row in TABLES[table]}
    for name, values in neutral.items():
        row = on_page[name]
        if values is None:
            assert row.neutral_text.startswith("any value"), name
        else:
            told = {msgspec.json.encode(json.loads(text)).decode() for text in row.neutral}
            assert told - {"null"} == set(values), name


def structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs in a type's alternatives, not those in lists."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    elif get_origin(kind) is not list:
        for part in get_args(kind):
            if get_origin(kind) is not dict:
                yield from structs(part)


def lists(kind: Any) -> Iterator[Any]:
    """The types of items of the lists in a type's alternatives."""
    if get_origin(kind) is list:
        yield get_args(kind)[0]
    elif get_origin(kind) is not dict:
        for part in get_args(kind):
            yield from lists(part)


def struct_fields(struct: type[msgspec.Struct], path: str = "") -> Iterator[str]:
    """Paths of all fields, through structs and lists of them. Fields of lists whose items are
    told apart by a tag have it as a selector."""
    for name, hint in get_type_hints(struct).items():
        field = f"{path}{name}"
        yield field
        for inner in structs(hint):
            yield from struct_fields(inner, f"{field}.")
        for item in lists(hint):
            kinds = list(structs(item))
            for inner in kinds:
                tag = inner.__struct_config__.tag
                several = len(kinds) > 1
                kind = str(tag) if several and tag is not None else ""
                yield from struct_fields(inner, f"{field}[{kind}].")


def covered(field: str, on_page: dict[str, Row]) -> bool:
    """Whether the page has the field, or has what it is in with no value that is honoured."""
    marks = [m.start() for m in re.finditer(r"[.\[]", field)]
    outer = {field[:at] for at in marks}
    return field in on_page or any(part in on_page and not on_page[part].honoured for part in outer)


@pytest.mark.parametrize(
    ("table", "struct"),
    [("Chat", ChatRequest), ("Completions", CompletionRequest), ("Messages", MessagesRequest)],
)
def test_the_page_has_every_field_of_a_request(table: str, struct: type[msgspec.Struct]) -> None:
    on_page = {field: row for row in TABLES[table] for field in row.fields}
    missing = [field for field in struct_fields(struct) if not covered(field, on_page)]
    assert not missing


def described(schema: Any, schemas: Any, path: str = "") -> Iterator[str]:
    """Paths of a description's properties."""
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from described(inner, schemas, f"{path}{name}.")
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key, ()):
            yield from described(part, schemas, path)
    if isinstance(items := schema.get("items"), dict):
        yield from described(items, schemas, f"{path.removesuffix('.')}[].")


@pytest.mark.parametrize(
    ("table", "name"),
    [("Chat", "CreateChatCompletionRequest"), ("Completions", "CreateCompletionRequest")],
)
def test_the_page_has_every_field_of_openais_description(
    suites: Path, table: str, name: str
) -> None:
    text = (suites / "openapi" / "openai.yaml").read_text()
    schemas = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))["components"][
        "schemas"
    ]
    on_page: dict[str, Row] = {}
    for row in TABLES[table]:
        for field in row.fields:
            on_page.setdefault(re.sub(r"\[[^\]]*\]", "[]", field), row)
    kinds = {"messages[].role", "messages[].content[].type", "tool_choice.type"}
    kinds |= {"response_format.type"}  # they tell which of the rows it is
    parts = r"messages\[\]\.content\[\]\.(image_url|input_audio|file)\b"
    missing = [
        field
        for field in dict.fromkeys(described(schemas[name], schemas))
        if field not in kinds and not re.match(parts, field) and not covered(field, on_page)
    ]
    assert not missing
