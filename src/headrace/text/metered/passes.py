"""Passes of loops, which are paid for."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

from headrace.text.metered.meter import SLICE, Meter
from headrace.text.metered.sizes import SLOT


class Passes:
    """A list or the like, each of whose items is paid for when it comes."""

    __slots__ = ("_items", "_meter", "_work")

    def __init__(self, meter: Meter, items: Any, work: int) -> None:
        """items: they have a length. work: units of a pass."""
        self._meter = meter
        self._items = items
        self._work = work

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return metered(self._meter, self._items, self._work)


def counted(meter: Meter, iterable: Any, work: int) -> Any:
    """The iterable, its passes paid for: in advance if they are few, else one by one."""
    try:
        count = len(iterable)
    except TypeError:
        return metered(meter, iterable, work)
    if count * work > SLICE // 8:
        return Passes(meter, iterable, work)
    meter.spend(count * work + SLOT)
    return iterable


def metered(meter: Meter, iterable: Iterable[Any], work: int) -> Generator[Any]:
    """The items, each of them paid for when it comes."""
    for item in iterable:
        meter.left -= work
        if meter.left < 0:
            meter.refill()
        yield item
