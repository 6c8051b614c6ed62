"""What calls of functions an answer may have, whatever the API in which it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

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


@dataclass(frozen=True, slots=True)
class Declared:
    """A function that there is. parameters: a JSON schema of an object. param, name_param: where
    schema and name stand in the request, for errors."""

    name: str
    description: str | None
    parameters: dict[str, Any]
    param: str
    name_param: str


@dataclass(frozen=True, slots=True)
class Calls:
    """functions: all that were declared, for the prompt. callable: the indexes of those that may
    be called. must: the answer is calls and nothing else. several: more than one at a time.
    named: the caller chose the one function itself."""

    functions: Sequence[Declared]
    callable: Sequence[int]
    must: bool
    several: bool
    named: bool = False


def index_by_name(functions: Sequence[Declared]) -> dict[str, int]:
    """Raises BodyError for a name that is declared twice and for parameters of no object."""
    names: dict[str, int] = {}
    for index, function in enumerate(functions):
        name = function.name
        if name in names:
            param = function.name_param
            raise BodyError(f"Invalid '{param}': '{name}' is declared twice.", param)
        names[name] = index
        if function.parameters.get("type", "object") != "object":
            param = f"{function.param}.type"
            raise BodyError(f"Invalid '{param}': a function's parameters are an 'object'.", param)
    return names


def chosen(name: str, names: Mapping[str, int], param: str) -> int:
    """The index of a function that `param` names. Raises BodyError if there is none."""
    if name not in names:
        raise BodyError(
            f"Invalid '{param}': no function of that name is among the 'tools'."
            + suggest(name, list(names)),
            param,
        )
    return names[name]
