"""A worker that is played: arrivals, tokens and ends by hand or by dice, no event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from headrace.dispatch.arbiter import Arbiter
from headrace.dispatch.cost import OUTPUT, prompt_cost
from headrace.dispatch.entry import Entry
from headrace.dispatch.policy import Policies, usual_policies
from headrace.dispatch.shed import Shed

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def entry(tenant: UUID = A, **fields: Any) -> Entry:
    usual: dict[str, Any] = {"weight": 1, "service_class": "default", "long": False}
    usual |= {"prompt": 10, "max_tokens": 10, "arrived": 0.0}
    return Entry(tenant=tenant, **(usual | fields))


def policies(max_queue: int = 1000, **fields: Any) -> Policies:
    """All classes alike in these respects."""
    usual = usual_policies(max_queue)
    return {name: replace(policy, **fields) for name, policy in usual.items()}


@dataclass(eq=False)
class Running:
    """tokens: it will generate. cached: of its prompt, in truth."""

    entry: Entry
    tokens: int
    cached: int = 0


class Play:
    """An arbiter, a clock, and requests on the places it gave. served: true cost by tenant;
    a prompt's counts from when it has its place."""

    def __init__(self, places: int = 4, policies: Policies | None = None, **room: Any) -> None:
        self.arbiter = Arbiter(policies or usual_policies(1000))
        self.arbiter.resize(places, **room)
        self.now = 0.0
        self.running: dict[Entry, Running] = {}
        self.served: Counter[UUID] = Counter()
        self.shed: list[tuple[Entry, Shed]] = []
        self.placed: list[Entry] = []
        self.tokens: Callable[[Entry], int] = lambda entry: entry.max_tokens
        self.cached: Callable[[Entry], int] = lambda entry: 0

    def add(self, *entries: Entry) -> Shed | None:
        """They come now; why the last of them may not wait."""
        shed = None
        for newcomer in entries:
            newcomer.arrived = self.now
            shed = self.arbiter.join(newcomer, self.now)
        self.advance()
        return shed

    def advance(self) -> None:
        moves = self.arbiter.advance(self.now)
        self.shed += moves.shed
        for placed in moves.placed:
            self.placed.append(placed)
            run = self.running[placed] = Running(placed, self.tokens(placed), self.cached(placed))
            self.served[placed.tenant] += prompt_cost(placed.prompt, run.cached)
        assert len(self.running) <= self.arbiter.room.places

    def step(self, seconds: float = 0.01) -> None:
        """Everybody who runs has a token more, or ends."""
        self.now += seconds
        for run in list(self.running.values()):
            if run.entry.generated < run.tokens:
                self.arbiter.note(run.entry, 1, self.now)
                self.served[run.entry.tenant] += OUTPUT
            if run.entry.generated >= run.tokens:
                self.finish(run.entry)
        self.advance()

    def finish(self, ended: Entry) -> None:
        run = self.running.pop(ended)
        self.arbiter.end(ended, self.now, cached=run.cached, answered=True)

    def order(self) -> Iterator[Entry]:
        """Those who have places, one after the other, each for a step."""
        while self.running:
            ended = next(iter(self.running))
            yield ended
            self.now += 0.01
            self.finish(ended)
            self.advance()

    def assert_nothing_left(self) -> None:
        arbiter, room = self.arbiter, self.arbiter.room
        assert not self.running
        assert arbiter.waiting == 0
        assert room.taken == room.running.total() == room.long_running == 0
        assert room.prefilling == room._held == {False: 0, True: 0}
        for queue in arbiter.queues.values():
            assert queue.waiting == queue.backlog[False] == queue.backlog[True] == 0
            assert all(party.idle for party in queue.parties.values())
