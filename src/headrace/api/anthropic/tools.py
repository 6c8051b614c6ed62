"""Tools that a model may use, and how a caller chooses among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError
from headrace.api.cache_control import CacheControl
from headrace.api.calls import MAX_TOOLS, Calls, Declared, FunctionName, chosen, index_by_name
from headrace.api.empty import Empty
from headrace.api.reader import unsupported


class CustomTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """input_schema: of an object; it is followed with and without strict. The last four fields
    are accepted with values that change nothing: input is streamed as it comes, calls are made by
    the model alone, and every tool is in the prompt, without examples."""

    name: FunctionName
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    cache_control: CacheControl | None = None
    strict: bool | None = None
    allowed_callers: list[Literal["direct"]] | None = None
    defer_loading: bool | None = None
    eager_input_streaming: bool | None = None
    input_examples: Empty = None


class _Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    disable_parallel_tool_use: bool = False


class AutoChoice(_Choice, frozen=True, tag="auto"):
    pass


class AnyChoice(_Choice, frozen=True, tag="any"):
    pass


class ToolChoice(_Choice, frozen=True, tag="tool", kw_only=True):
    name: str


class NoneChoice(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="none"
):
    pass


CustomTools = Annotated[list[CustomTool], Meta(max_length=MAX_TOOLS)]
Choice = AutoChoice | AnyChoice | ToolChoice | NoneChoice


def asked_calls(tools: Sequence[CustomTool] | None, choice: Choice | None) -> Calls | None:
    """What a request says of calls; None if there can't be any. Raises BodyError."""
    if not tools:
        if isinstance(choice, AnyChoice | ToolChoice):
            raise BodyError(
                "Invalid 'tool_choice': it asks for a call, but there are no 'tools'.",
                "tool_choice",
            )
        return None
    for index, tool in enumerate(tools):
        if tool.defer_loading:
            raise unsupported(f"tools[{index}].defer_loading", ("false",))
        if tool.eager_input_streaming is False:
            raise unsupported(f"tools[{index}].eager_input_streaming", ("true",))
    functions = [
        Declared(
            tool.name,
            tool.description,
            tool.input_schema,
            f"tools[{index}].input_schema",
            f"tools[{index}].name",
        )
        for index, tool in enumerate(tools)
    ]
    names = index_by_name(functions)
    if isinstance(choice, NoneChoice):
        return None
    several = choice is None or not choice.disable_parallel_tool_use
    if isinstance(choice, ToolChoice):
        index = chosen(choice.name, names, "tool_choice.name")
        return Calls(functions, [index], True, several)
    return Calls(functions, range(len(tools)), isinstance(choice, AnyChoice), several)
