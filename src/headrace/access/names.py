"""How models, their versions and aliases may be called."""

from __future__ import annotations

import re

from headrace.access.errors import AccessError

_WORD = re.compile(r"[!-?A-~]{1,200}", re.ASCII)
_TARGET = re.compile(r"[!-?A-~]{1,200}(@[!-?A-~]{1,200})?", re.ASCII)


def checked_word(kind: str, text: str) -> str:
    """Itself: visible ASCII without "@", which stands between a name and a version.

    Raises AccessError, which names the kind."""
    if not _WORD.fullmatch(text):
        raise AccessError(f"a {kind} is 1 to 200 visible ASCII characters without '@'")
    return text


def checked_target(text: str) -> str:
    """Itself: what "model" may say, a name or name@version. Raises AccessError."""
    if not _TARGET.fullmatch(text):
        raise AccessError("a target is a name or name@version, in visible ASCII characters")
    return text
