"""Kinds of values that the administration API's bodies are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Printable characters, without space at either end.",
    ),
]
NewName = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9][A-Za-z0-9._@+-]{0,199}\\Z",
        description="Letters, digits and . _ @ + -; the first is a letter or a digit.",
    ),
]
Word = Annotated[
    str,
    Meta(pattern="^[!-?A-~]{1,200}\\Z", description="Visible ASCII without @."),
]
Target = Annotated[
    str,
    Meta(pattern="^[!-?A-~]{1,200}(@[!-?A-~]{1,200})?\\Z", description="NAME or NAME@VERSION."),
]
Money = Annotated[
    str,
    Meta(
        pattern="^[0-8]?[0-9]{1,6}(\\.[0-9]{1,9})?\\Z",
        description='Units of money in decimals, such as "5.00".',
    ),
]
Rate = Annotated[
    str,
    Meta(
        pattern="^[0-9]{1,6}(\\.[0-9]{1,3})?\\Z",
        description='Units of money for a million tokens, such as "0.15".',
    ),
]
Count = Annotated[int, Meta(ge=1, le=2**53)]
Weight = Annotated[int, Meta(ge=1, le=1000)]
LATEST = 253_402_300_799
"""The last second of the year 9999, which is as far as dates go."""

Moment = Annotated[int, Meta(ge=0, le=LATEST, description="Unix seconds.")]
ServiceClass = Literal["interactive", "default", "batch"]
Period = Literal["day", "month"]
Scope = Literal["inference", "admin"]
