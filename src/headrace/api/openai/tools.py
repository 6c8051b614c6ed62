"""Functions that a model may call, and how a caller chooses among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError
from headrace.api.cache_control import CacheControl
from headrace.api.calls import (
    MAX_TOOLS,
    NO_PARAMETERS,
    Calls,
    Declared,
    FunctionName,
    chosen,
    index_by_name,
)


class Function(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """parameters: a JSON schema of an object. strict: the schema is followed either way.
    cache_control: checked; it changes nothing."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """cache_control: checked; it changes nothing."""

    type: Literal["function"]
    function: Function
    cache_control: CacheControl | None = None


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class NamedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="function"):
    function: Named


class AllowedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: Named


class AllowedTools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: Literal["auto", "required"]
    tools: Annotated[list[AllowedTool], Meta(min_length=1)]


class AllowedToolsChoice(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="allowed_tools"
):
    allowed_tools: AllowedTools


Tools = Annotated[list[Tool], Meta(max_length=MAX_TOOLS)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedToolsChoice


def asked_calls(
    tools: Sequence[Tool] | None, choice: ToolChoice | None, several: bool | None
) -> Calls | None:
    """What a request says of calls; None if there can't be any. Raises BodyError."""
    if not tools:
        if choice not in (None, "none", "auto"):
            raise BodyError(
                "Invalid 'tool_choice': it asks for a call, but there are no 'tools'.",
                "tool_choice",
            )
        return None
    functions = [_declared(tool, index) for index, tool in enumerate(tools)]
    names = index_by_name(functions)
    everything = range(len(tools))
    parallel = several is not False
    match choice:
        case "none":
            return None
        case None | "auto" | "required":
            return Calls(functions, everything, choice == "required", parallel)
        case NamedTool():
            index = chosen(choice.function.name, names, "tool_choice.function.name")
            return Calls(functions, [index], True, False, named=True)
        case AllowedToolsChoice(allowed):
            indexes = {
                chosen(
                    tool.function.name,
                    names,
                    f"tool_choice.allowed_tools.tools[{place}].function.name",
                )
                for place, tool in enumerate(allowed.tools)
            }
            return Calls(functions, sorted(indexes), allowed.mode == "required", parallel)


def _declared(tool: Tool, index: int) -> Declared:
    function, param = tool.function, f"tools[{index}].function"
    parameters = NO_PARAMETERS if function.parameters is None else function.parameters
    return Declared(
        function.name, function.description, parameters, f"{param}.parameters", f"{param}.name"
    )
