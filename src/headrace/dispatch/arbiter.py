"""Who waits, who is next, who is turned away: all of dispatch but the waiting itself.

It knows no event loop, no worker and no clock. It is told the time and what happens, and
says what follows from it, so a test can play any load in any order.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from headrace.access.tenant import ServiceClass
from headrace.dispatch.cost import OUTPUT, prompt_cost
from headrace.dispatch.entry import Entry
from headrace.dispatch.fairness import VirtualTime
from headrace.dispatch.pace import Rate
from headrace.dispatch.policy import Policies
from headrace.dispatch.prefixes import Prefixes
from headrace.dispatch.queue import ClassQueue
from headrace.dispatch.room import Room
from headrace.dispatch.shed import Shed, ShedReason
from headrace.dispatch.status import TenantStatus

PRUDENCE = 0.35
"""Whoever would begin within this part of the time it has may wait: estimates err, and one that
is refused at once can go elsewhere."""


@dataclass(slots=True)
class Moves:
    """What is to be done now."""

    placed: list[Entry] = field(default_factory=list)
    shed: list[tuple[Entry, Shed]] = field(default_factory=list)


class Arbiter:
    """Classes share the service by their shares, tenants in a class by their weights, and a
    tenant's own requests go by their deadlines."""

    def __init__(self, policies: Policies) -> None:
        self.queues = {name: ClassQueue(policy) for name, policy in policies.items()}
        self.room = Room(policies)
        self.sheds: Counter[tuple[ServiceClass, ShedReason]] = Counter()
        self._time = VirtualTime()
        self._prefixes = Prefixes()
        # Cost a second, in lanes of short and of long requests, while somebody waits there.
        self._served = {False: Rate(), True: Rate()}
        self._prefilled = Rate()  # prompt tokens a second while there are any to compute
        self._earliest = math.inf  # no deadline of one who waits is before it

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self.queues.values())

    @property
    def next_deadline(self) -> float:
        """When `advance` should be called if nothing happens before; infinite for never."""
        return self._earliest

    def resize(self, places: int, tokens: int | None = None, ahead: int | None = None) -> None:
        """The worker has so many places, cache for so many tokens, and should be sent so many
        prompt tokens ahead; 0 places while there is none."""
        if self.room.tokens != tokens or not places:
            self._prefixes.resize(tokens or 0)
        self.room.resize(places, tokens, ahead)

    def refuse(self, entry: Entry, now: float) -> Shed | None:
        """Turn a newcomer away, if it may not wait; why."""
        self.room.see(entry, now)
        shed = self._refusal(entry, now)
        if shed is not None:
            self.sheds[entry.service_class, shed.reason] += 1
        return shed

    def _refusal(self, entry: Entry, now: float) -> Shed | None:
        queue = self.queues[entry.service_class]
        self._guess(queue, entry)
        entry.deadline = min(
            entry.asked, entry.arrived + queue.policy.deadline + self._alone(entry)
        )
        left = entry.deadline - now
        if (
            left > 0
            and not queue.waiting_in[entry.long]
            and self.room.is_open(entry.service_class, now)
        ):
            return None
        if queue.waiting >= queue.policy.max_queue and queue.is_greediest(entry):
            return self._full(queue)
        prefill = self._prefill_time(entry)
        most = PRUDENCE * (left - prefill)  # until its turn
        wait = self._wait(queue, entry, max(most, 0.0))
        return _late(wait + prefill, left) if left <= 0 or wait > most else None

    def join(self, entry: Entry, now: float) -> Shed | None:
        """Let a newcomer wait, or say why it may not."""
        if shed := self.refuse(entry, now):
            return shed
        self.queues[entry.service_class].add(entry)
        self._earliest = min(self._earliest, entry.deadline)
        return None

    def withdraw(self, entry: Entry) -> bool:
        """One who waited leaves; whether it did wait."""
        return self.queues[entry.service_class].remove(entry)

    def advance(self, now: float) -> Moves:
        """Hand out what room there is, and turn away who waits in vain."""
        moves = Moves()
        self._expire(moves, now)
        while (entry := self._turn(now)) is not None:
            queue = self.queues[entry.service_class]
            self._guess(queue, entry)
            waited = now > entry.arrived
            if waited and now + self._prefill_time(entry) > entry.deadline:
                self._shed(moves, entry, _late(self._prefill_time(entry), entry.deadline - now))
            elif self.room.fits(entry, now):
                self._place(queue, entry, now)
                moves.placed.append(entry)
            else:
                break
        self._trim(moves)
        return moves

    def note(self, entry: Entry, tokens: int, now: float) -> None:
        """One who runs has generated so many more."""
        served = OUTPUT * tokens
        if not entry.started:
            served += prompt_cost(entry.prompt, entry.cached)
            self._start(entry, now)
        before = max(entry.generated, entry.expected)
        entry.generated += tokens
        if entry.generated > before:
            self.queues[entry.service_class].charge(entry, OUTPUT * (entry.generated - before))
        waiting = any(queue.waiting_in[entry.long] for queue in self.queues.values())
        self._served[entry.long].note(served, now, busy=waiting)

    def end(self, entry: Entry, now: float, *, cached: int | None, answered: bool) -> None:
        """One has given its place back. cached: what of its prompt was, if that is known.
        answered: it ended by itself."""
        queue = self.queues[entry.service_class]
        self.room.leave(entry, now)
        actual = prompt_cost(entry.prompt, entry.cached if cached is None else cached)
        queue.charge(entry, actual + OUTPUT * entry.generated - entry.charged)
        queue.end(entry, answered)

    def undo(self, entry: Entry, now: float) -> None:
        """One that was placed could not begin."""
        queue = self.queues[entry.service_class]
        self.room.leave(entry, now)
        queue.charge(entry, -entry.charged)
        queue.end(entry, answered=False)

    def tenants(self, now: float) -> tuple[TenantStatus, ...]:
        """Who has anything going on."""
        return tuple(
            TenantStatus(
                tenant=party.id,
                service_class=name,
                queued=len(party),
                running=party.running,
                oldest=now - party.oldest if party else 0.0,
            )
            for name, queue in self.queues.items()
            for party in queue.parties.values()
            if party or party.running
        )

    def _turn(self, now: float) -> Entry | None:
        """Who is next; it still waits."""
        heads: dict[ServiceClass, Entry] = {}
        for name, queue in self.queues.items():
            if queue.waiting and self.room.is_open(name, now):
                head = queue.turn(now, self.room.lane_is_open, self._known)
                if head is not None:
                    heads[name] = head
        self._time.stand([self.queues[name].account for name in heads])
        if len(heads) <= 1:
            return next(iter(heads.values()), None)

        def standing(name: ServiceClass) -> tuple[bool, bool, float, int]:
            queue = self.queues[name]
            overdue, below = queue.overdue(now), self.room.below_floor(name)
            return not overdue, not below, queue.account.time, -queue.policy.rank

        return heads[min(heads, key=standing)]

    def _known(self, entry: Entry) -> int:
        return self._prefixes.known(entry.prefixes, entry.prompt)

    def _guess(self, queue: ClassQueue, entry: Entry) -> None:
        """What it will cost, as far as that can be told now."""
        entry.cached = self._known(entry)
        entry.expected = queue.expect(entry)

    def _place(self, queue: ClassQueue, entry: Entry, now: float) -> None:
        entry.placed = now
        queue.begin(entry, now)
        queue.charge(entry, entry.cost)
        if not any(self.room.prefilling.values()):
            self._prefilled.note(0, now, busy=True)
        self.room.take(entry)
        self._prefixes.note(entry.prefixes)

    def _start(self, entry: Entry, now: float) -> None:
        self.room.start(entry)
        entry.started = True
        self._prefilled.note(entry.uncached, now, busy=any(self.room.prefilling.values()))

    def _expire(self, moves: Moves, now: float) -> None:
        if now < self._earliest:
            return
        for queue in self.queues.values():
            while late := [entry for entry in queue.earliest() if entry.deadline <= now]:
                for entry in late:
                    waited = f"it waited for {now - entry.arrived:.1f} s, until its deadline"
                    self._shed(moves, entry, Shed("waited_too_long", waited, 1.0))
        deadlines = (e.deadline for q in self.queues.values() for e in q.earliest())
        self._earliest = min(deadlines, default=math.inf)

    def _trim(self, moves: Moves) -> None:
        """Turn away who waits beyond the queue's cap: the last of whoever has most waiting, so
        that a flood shuts nobody else out."""
        for queue in self.queues.values():
            while queue.waiting > queue.policy.max_queue:
                self._shed(moves, queue.greediest().last, self._full(queue))

    def _shed(self, moves: Moves, entry: Entry, shed: Shed) -> None:
        self.withdraw(entry)
        self.sheds[entry.service_class, shed.reason] += 1
        moves.shed.append((entry, shed))

    # Estimates.

    def _wait(self, queue: ClassQueue, entry: Entry, seconds: float) -> float:
        """Whether a newcomer's turn comes within so many seconds: less than that if it does, else
        more. By what was served a second of late, what waits, and what comes meanwhile."""
        rate, long = self._served[entry.long].value, entry.long
        if rate is None:
            return 0.0
        own = queue.work_before(entry, seconds)
        others = (
            (other.account, other.backlog(long) + other.inflow[long].value(entry.arrived) * seconds)
            for other in self.queues.values()
            if other is not queue
        )
        return self._time.work_before(queue.account, own, others) / rate

    def _prefill_time(self, entry: Entry) -> float:
        """Seconds from its turn to its first token."""
        if self._prefilled.value is None:
            return 0.0
        return self.room.prefilling[entry.long] / self._prefilled.value + self._alone(entry)

    def _alone(self, entry: Entry) -> float:
        """Seconds that its own prompt takes."""
        return entry.uncached / self._prefilled.value if self._prefilled.value else 0.0

    def _full(self, queue: ClassQueue) -> Shed:
        rate = self._served[False].value
        wait = queue.backlog(long=False) / rate / 2 if rate else 1.0
        message = f"{queue.waiting} requests of its class are waiting and no more may join them"
        return Shed("queue_full", message, wait)


def _late(begin: float, left: float) -> Shed:
    message = f"it would begin in about {begin:.1f} s, and its deadline is in {max(left, 0):.1f} s"
    return Shed("would_be_late", message, max(begin - PRUDENCE * left, 0.0))
