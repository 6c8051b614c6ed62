"""A cache against the plain idea of one."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.access.cache import ExpiringCache

SECONDS, CAPACITY = 10, 4
KEYS = st.integers(0, 6)


class CacheMachine(RuleBasedStateMachine):
    """The model remembers every put with its time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.puts: list[tuple[int, int, int]] = []
        self.cache = ExpiringCache[int, int](SECONDS, CAPACITY, lambda: self.now)

    @rule(key=KEYS, value=st.integers())
    def put(self, key: int, value: int) -> None:
        self.cache.put(key, value)
        self.puts = [put for put in self.puts if put[0] != key]
        self.puts.append((key, value, self.now))

    @rule(seconds=st.integers(1, SECONDS))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.puts = []

    @rule(key=KEYS)
    def get(self, key: int) -> None:
        found = self.cache.get(key)
        live = [value for k, value, at in self.puts if k == key and self.now < at + SECONDS]
        # Expired ones may have driven out nothing that the newest CAPACITY puts hold.
        newest = [value for k, value, _ in self.puts[-CAPACITY:] if k == key]
        assert found in [*live, None]
        if live and newest:
            assert found == live[0]

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.cache) <= CAPACITY


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=100, deadline=None)
