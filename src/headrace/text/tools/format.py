"""How families of models write function calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_WHITE = 8
"""Most white space between the parts of a call."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to write a call: a JSON object of name and arguments, between markers.

    opening, closing: the markers, "" for none. sure: the opening alone begins a call; else only
    at the beginning of a line, and with the name of a known function and all up to its arguments,
    since text may look alike. key: what the arguments are called. pad: between markers and
    object. listed: an array of such objects. infix: there is no object, but the name, this and
    the arguments.
    """

    opening: str = ""
    closing: str = ""
    sure: bool = False
    key: str = "arguments"
    pad: str = ""
    listed: bool = False
    infix: str = ""


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A family's shapes: calls are written in the first, and understood in all. between: what
    stands between two calls. short_ids: its templates want ids of nine letters and digits."""

    name: str
    shapes: tuple[Shape, ...]
    between: str = "\n"
    short_ids: bool = False

    @property
    def markers(self) -> tuple[str, ...]:
        """All texts that may be control tokens of a vocabulary."""
        texts = [
            text
            for shape in self.shapes
            for text in (shape.opening, shape.closing, shape.infix)
            if text
        ]
        return tuple(dict.fromkeys(texts))

    def write(self, name: str, arguments: Mapping[str, Any] | str) -> str:
        """One call as the model would write it. arguments: a text is written as a JSON string."""
        shape, text = self.shapes[0], json.dumps(arguments, ensure_ascii=False)
        if shape.infix:
            return f"{shape.opening}{name}{shape.infix}{text}{shape.closing}"
        call = f'{{"name": {json.dumps(name)}, "{shape.key}": {text}}}'
        call = f"[{call}]" if shape.listed else call
        return f"{shape.opening}{shape.pad}{call}{shape.pad}{shape.closing}"


FORMATS = {
    format.name: format
    for format in (
        ToolFormat(
            "hermes",
            (
                Shape("<tool_call>", "</tool_call>", sure=True, pad="\n"),
                Shape("<tools>", "</tools>"),  # how Qwen 2.5 Coder is apt to slip
                Shape("```json", "```"),
                Shape(),
            ),
        ),
        ToolFormat(
            "llama3",
            (Shape(key="parameters"), Shape("<|python_tag|>", sure=True, key="parameters")),
            between="; ",
        ),
        ToolFormat("mistral", (Shape("[TOOL_CALLS]", sure=True, listed=True),), short_ids=True),
        ToolFormat(
            "mistral-named",
            (Shape("[TOOL_CALLS]", sure=True, infix="[ARGS]"),),
            between="",
            short_ids=True,
        ),
        ToolFormat(
            "gemma",
            (
                Shape(key="parameters"),
                Shape("```json", "```", key="parameters"),
                Shape("```tool_code", "```", key="parameters"),
            ),
        ),
        ToolFormat("json", (Shape(), Shape("```json", "```"))),
    )
}
"""Hermes and Qwen; Llama 3; Mistral up to version 7 of its tokenizers, and from 11 on; Gemma 3 as
its documentation asks it to; plain JSON."""

DEFAULT = "hermes"
"""For models whose template knows of no tools."""


def format_of(template: str, *, knows_tools: bool) -> ToolFormat:
    """The format that a chat template speaks of."""
    if not knows_tools:
        return FORMATS[DEFAULT]
    if "[TOOL_CALLS]" in template:
        return FORMATS["mistral-named" if "[ARGS]" in template else "mistral"]
    if "<tool_call>" in template:
        return FORMATS["hermes"]
    if "<|python_tag|>" in template or "<|start_header_id|>" in template:
        return FORMATS["llama3"]
    return FORMATS["gemma" if "<start_of_turn>" in template else "json"]
