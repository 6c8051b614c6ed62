"""A cache against the plain idea of one."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.access.cache import ExpiringCache

SECONDS, CAPACITY = 10, 4
KEYS = st.integers(0, 6)


class CacheMachine(RuleBasedStateMachine):
    """The model is a list of entries, the least recently used first."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.entries: list[tuple[int, int, int]] = []
        self.cache = ExpiringCache[int, int](SECONDS, CAPACITY, lambda: self.now)

    @rule(key=KEYS, value=st.integers())
    def put(self, key: int, value: int) -> None:
        self.cache.put(key, value)
        self.entries = [entry for entry in self.entries if entry[0] != key]
        self.entries.append((key, value, self.now))
        del self.entries[:-CAPACITY]

    @rule(seconds=st.integers(1, SECONDS))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.entries = []

    @rule(key=KEYS)
    def get(self, key: int) -> None:
        found = self.cache.get(key)
        held = next((entry for entry in self.entries if entry[0] == key), None)
        if held is not None:
            self.entries.remove(held)
        live = held if held is not None and self.now < held[2] + SECONDS else None
        if live is not None:
            self.entries.append(live)
        assert found == (None if live is None else live[1])

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.cache) <= CAPACITY


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=100, deadline=None)
