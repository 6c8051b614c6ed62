"""A bounded memory whose entries expire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """An LRU cache of `capacity` entries, each of which also ends `seconds` after it was put. Every
    call costs the same, however many entries there are.

    clock: seconds that never step back.
    """

    def __init__(self, seconds: float, capacity: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()  # the last used last

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        expires, value = entry
        if expires <= self._clock():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        self._entries[key] = self._clock() + self._seconds, value
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def discard(self, key: K) -> None:
        """Nothing happens if it isn't there."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
