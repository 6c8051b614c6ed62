"""Functions that a model may call, and how a caller chooses among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError, suggest

MAX_TOOLS = 128

FunctionName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}\\Z")]
NO_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
"""What a function takes that names no parameters."""


class Function(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """parameters: a JSON schema of an object. strict: the schema is followed either way."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: Function


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


@dataclass(frozen=True, slots=True)
class Calls:
    """What calls an answer may have. tools: all that were declared, for the prompt. callable: the
    indexes of those that may be called. must: the answer is calls and nothing else. several: more
    than one at a time. named: the caller chose the one function itself."""

    tools: Sequence[Tool]
    callable: Sequence[int]
    must: bool
    several: bool
    named: bool


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
        if several is not None:
            raise BodyError(
                "'parallel_tool_calls' is only allowed when 'tools' are given.",
                "parallel_tool_calls",
            )
        return None
    names = _names(tools)
    everything = range(len(tools))
    parallel = several is not False
    match choice:
        case "none":
            return None
        case None | "auto" | "required":
            return Calls(tools, everything, choice == "required", parallel, False)
        case NamedTool():
            param = "tool_choice.function.name"
            index = _index(choice.function.name, names, param)
            return Calls(tools, [index], True, False, True)
        case AllowedToolsChoice(allowed):
            chosen = {
                _index(
                    tool.function.name,
                    names,
                    f"tool_choice.allowed_tools.tools[{place}].function.name",
                )
                for place, tool in enumerate(allowed.tools)
            }
            return Calls(tools, sorted(chosen), allowed.mode == "required", parallel, False)


def _names(tools: Sequence[Tool]) -> dict[str, int]:
    """Index by name."""
    names: dict[str, int] = {}
    for index, tool in enumerate(tools):
        name, param = tool.function.name, f"tools[{index}].function"
        if name in names:
            raise BodyError(f"Invalid '{param}.name': '{name}' is declared twice.", f"{param}.name")
        names[name] = index
        kind = (tool.function.parameters or NO_PARAMETERS).get("type", "object")
        if kind != "object":
            raise BodyError(
                f"Invalid '{param}.parameters.type': a function's parameters are an 'object'.",
                f"{param}.parameters.type",
            )
    return names


def _index(name: str, names: dict[str, int], param: str) -> int:
    if name not in names:
        raise BodyError(
            f"Invalid '{param}': no function of that name is among the 'tools'."
            + suggest(name, list(names)),
            param,
        )
    return names[name]
