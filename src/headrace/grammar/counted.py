"""How many characters the automaton of a grammar counts."""

from __future__ import annotations

import re

_TIMES = r"(?<!\\x)\{([0-9]{1,9})(?:,([0-9]{0,9}))?\}"  # \x{...} is a character
_PART = re.compile(
    r'(?:min|max)Length\\*": (?P<length>[0-9]{1,9})|(?P<open>\()'
    rf"|(?=[){{])(?P<close>\))?(?:{_TIMES})?"
)


def counted(text: str) -> int:
    """About the sum of the lengths and repetitions in a grammar's text, each of them multiplied by
    the repetitions that it stands in.

    The states of the automaton are about as many times nine. Constants that look like a repetition
    are counted too.
    """
    groups = [0]
    for part in _PART.finditer(text):
        if part["length"]:
            groups[-1] += int(part["length"])
        elif part["open"]:
            groups.append(0)
        elif part[0]:
            inner = groups.pop() if part["close"] and len(groups) > 1 else 0
            times = max(int(part[4] or 0), int(part[5] or 0))
            groups[-1] += max(inner, 1) * times if times else inner
    return sum(groups)
