"""Labels that stay few, whoever comes."""

from __future__ import annotations

OTHERS = "(others)"
"""Stands for all that came too late to have a series of their own."""

MOST = 200


class Few:
    """The first so many names; each later one is OTHERS. So no counter ever goes back."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHERS
            self._known.add(name)
        return name
