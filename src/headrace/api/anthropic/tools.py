"""Tools that a model may use, and how a caller chooses among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.anthropic.blocks import CacheControl
from headrace.api.body import BodyError
from headrace.api.calls import MAX_TOOLS, Calls, Declared, FunctionName, chosen, index_by_name


class CustomTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """input_schema: of an object. strict: it is followed either way."""

    name: FunctionName
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    cache_control: CacheControl | None = None
    strict: bool | None = None


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
        if choice is not None and not isinstance(choice, NoneChoice):
            raise BodyError(
                "Invalid 'tool_choice': it is only allowed when 'tools' are given.", "tool_choice"
            )
        return None
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
