"""Values that are read as text or were just made."""

from __future__ import annotations

from typing import Any

import jinja2
from markupsafe import Markup

from headrace.text.metered.meter import Meter
from headrace.text.metered.sizes import PART

MAX_CHARACTERS = 32 << 20  # of one text
MAX_BITS = 16_384  # of an integer


def as_text(meter: Meter, value: object) -> str:
    """The value as Python's own text, paid for where it is not one yet."""
    if type(value) is str:
        return value
    meter.spend_on(value, PART)
    meter.spend(PART)
    return str(value)


def unmarked(value: Any) -> Any:
    """Markup is a text that would escape what it meets."""
    return str(value) if isinstance(value, Markup) else value


def checked(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise jinja2.TemplateRuntimeError(
            f"the chat template made an integer of more than {MAX_BITS} bits"
        )
    return value


def check_length(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError(
            f"the chat template made more than {MAX_CHARACTERS} characters"
        )


def spend_for_text(meter: Meter, characters: int) -> None:
    """For a text of so many characters that is about to be made."""
    check_length(characters)
    meter.spend(characters)
