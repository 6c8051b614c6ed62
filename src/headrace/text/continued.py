"""A prompt that ends within its last message, so that the answer continues it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.text.template import Message, TemplateError

_END = "\ufdd1"
"""A noncharacter that marks the end of the last message while a template is rendered."""

_TRIMMED = " "
"""Stands behind the mark, so that a template shows by it whether it trims its messages."""


def with_end(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages with a mark at the end of the last one's content, which must be a text."""
    *before, last = map(dict, messages)
    return [*before, {**last, "content": f"{last['content']}{_END}{_TRIMMED}"}]


def until_end(rendered: str, content: str) -> str:
    """What a template made of `with_end`'s messages, up to the mark. content: of the last message.

    A template that trims its messages gets the white space at their ends trimmed, as it would
    without the mark. Raises TemplateError if it does not show the last message.
    """
    end = rendered.rfind(_END)
    if end < 0:
        raise TemplateError("it does not show the last message, so that can't be continued")
    prompt = rendered[:end]
    trims = rendered[end + 1 : end + 1 + len(_TRIMMED)] != _TRIMMED
    core = content.rstrip()
    if trims and core and prompt.endswith(content[len(core) :]):
        prompt = prompt[: len(prompt) - (len(content) - len(core))]
    return prompt.replace(f"{_END}{_TRIMMED}", "").replace(_END, "")
