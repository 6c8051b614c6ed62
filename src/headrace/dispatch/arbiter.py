"""Who waits, who is next, who is turned away: all of dispatch but the waiting itself.

It knows no event loop, no worker and no clock. It is told the time and what happens, and
says what follows from it, so a test can play any load in any order.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass
from itertools import count

from headrace.access.tenant import ServiceClass
from headrace.dispatch.cost import OUTPUT, prompt_cost
from headrace.dispatch.entry import Entry
from headrace.dispatch.fairness import VirtualTime
from headrace.dispatch.outage import Outage
from headrace.dispatch.pace import LEAST, Pace, Rate
from headrace.dispatch.policy import Policies
from headrace.dispatch.prefixes import Prefixes
from headrace.dispatch.queue import ClassQueue
from headrace.dispatch.room import Room
from headrace.dispatch.shed import Shed, ShedReason
from headrace.dispatch.siblings import Siblings
from headrace.dispatch.status import TenantStatus
from headrace.dispatch.steps import Steps

RATE_ERROR, SHARE_ERROR = 1.04, 1.6
"""Waits may take so many times what is estimated: the rate of service is only known so well, and
where several classes wait, what part of it each gets."""

LUCK = 2.0
"""Standard deviations that a wait may take longer, as the lengths of answers are only known on
average."""

STALE = 64
"""Deadlines of those who don't wait any more that are kept beside as many as wait."""


@dataclass(slots=True)
class Moves:
    """What is to be done now."""

    placed: list[Entry]
    shed: list[tuple[Entry, Shed]]


class Arbiter:
    """Classes share the service by their shares, tenants in a class by their weights, and a
    tenant's own requests go by their deadlines."""

    def __init__(self, policies: Policies) -> None:
        self.queues = {name: ClassQueue(policy) for name, policy in policies.items()}
        self.room = Room(policies)
        self.sheds: Counter[tuple[ServiceClass, ShedReason]] = Counter()
        self._time = VirtualTime()
        self._prefixes = Prefixes()
        self._outage = Outage()
        self._served = {False: Pace(), True: Pace()}  # cost a second, of short and of long requests
        self._prefilled = Rate(least=LEAST / 8)  # prompt tokens a second while there are any
        self._steps = Steps()
        self._waiting_in = {False: 0, True: 0}  # in all classes, by lane
        self._deadlines: list[tuple[float, int, Entry]] = []
        self._most_deadlines = STALE
        self._serial = count()
        self._crowded = False  # whether a class may have more waiting than it may

    @property
    def waiting(self) -> int:
        return self._waiting_in[False] + self._waiting_in[True]

    @property
    def next_deadline(self) -> float:
        """When `advance` should be called if nothing happens before; infinite for never."""
        earliest = self._earliest()
        return math.inf if earliest is None else earliest.deadline

    def resize(self, places: int, tokens: int | None = None, ahead: int | None = None) -> None:
        """The worker has so many places, cache for so many tokens, and should be sent so many
        prompt tokens ahead; 0 places while there is none."""
        if self.room.tokens != tokens or not places:
            self._prefixes.resize(tokens or 0)
        self.room.resize(places, tokens, ahead)

    def ask(self, entry: Entry, now: float) -> Shed | None:
        """Why a newcomer may not wait. Nothing is kept of one that is not refused."""
        self._size_up(entry)
        shed = self._refusal(entry, now)
        if shed is not None:
            self._count(entry, shed)
        return shed

    def join(self, entry: Entry, now: float) -> Shed | None:
        """Let a newcomer wait, or say why it may not."""
        self.room.see(entry, now)
        if shed := self.ask(entry, now):
            return shed
        queue = self.queues[entry.service_class]
        queue.add(entry)
        if queue.waiting > queue.policy.max_queue:
            self._crowded = True
        self._waiting_in[entry.long] += 1
        if entry.siblings is not None:
            self._join_siblings(entry, entry.siblings)
        if entry.deadline < math.inf:
            self._remember_deadline(entry)
        return None

    def _remember_deadline(self, entry: Entry) -> None:
        heapq.heappush(self._deadlines, (entry.deadline, next(self._serial), entry))
        if len(self._deadlines) > self._most_deadlines:
            self._deadlines = [each for each in self._deadlines if each[2].waits]
            heapq.heapify(self._deadlines)
            self._most_deadlines = STALE + 2 * len(self._deadlines)

    def _join_siblings(self, entry: Entry, siblings: Siblings) -> None:
        siblings.waiting[entry] = None
        if siblings.begun:
            self.queues[entry.service_class].keep(entry)

    def withdraw(self, entry: Entry, now: float) -> bool:
        """One who waited leaves; whether it did wait."""
        if entry.siblings is not None:
            entry.siblings.waiting.pop(entry, None)
        waited = self.queues[entry.service_class].withdraw(entry, now)
        self._waiting_in[entry.long] -= waited
        return waited

    def advance(self, now: float) -> Moves:
        """Hand out what room there is, and turn away who waits in vain."""
        moves = Moves([], [])
        self._outage.note(now, up=self.room.places > 0)
        if self._deadlines and self._deadlines[0][0] <= now:
            self._expire(moves, now)
        room = self.room
        while room.taken < room.places and (entry := self._turn(now)) is not None:
            queue = self.queues[entry.service_class]
            self._guess(entry, entry.party.outputs)
            if now > entry.arrived and now + self._prefill_time(entry) > entry.deadline:
                shed = _late(self._prefill_time(entry), entry.deadline - now, 1.0)
                self._shed(moves, entry, shed, now)
            elif room.fits(entry, now):
                self._place(queue, entry, now)
                moves.placed.append(entry)
            else:
                break
        if self._crowded:
            self._trim(moves, now)
        return moves

    def note(self, entry: Entry, tokens: int, now: float) -> None:
        """One who runs has generated so many more."""
        queue = self.queues[entry.service_class]
        served = OUTPUT * tokens
        if not entry.started:
            served += prompt_cost(entry.prompt, entry.cached)
            self._start(entry, now)
        entry.generated += tokens
        unexpected = entry.generated - entry.expected
        if unexpected > 0:
            queue.charge(entry, OUTPUT * min(unexpected, tokens))
        queue.serve(served)
        queue.outflow.note(served, now)
        self._steps.note(tokens, now)
        self._served[entry.long].note(served, now, waiting=self._waiting_in[entry.long] > 0)

    def end(self, entry: Entry, now: float, *, cached: int | None, answered: bool) -> None:
        """One has given its place back. cached: what of its prompt was, if that is known.
        answered: it ended by itself."""
        queue = self.queues[entry.service_class]
        self._leave(entry, now, computed=entry.started or answered)
        prompt = prompt_cost(entry.prompt, entry.cached if cached is None else cached)
        if not entry.started:
            queue.serve(prompt)
        queue.charge(entry, prompt + OUTPUT * entry.generated - entry.charged)
        queue.end(entry, answered)

    def undo(self, entry: Entry, now: float) -> None:
        """One that was placed could not begin."""
        queue = self.queues[entry.service_class]
        self._leave(entry, now, computed=False)
        queue.charge(entry, -entry.charged)
        queue.end(entry, answered=False)

    def tenants(self, now: float) -> tuple[TenantStatus, ...]:
        """Who has anything going on."""
        return tuple(
            TenantStatus(
                tenant=party.id,
                service_class=name,
                queued=party.waiting,
                running=party.running,
                oldest=now - party.oldest if party.waiting else 0.0,
            )
            for name, queue in self.queues.items()
            for party in queue.parties.values()
            if not party.idle
        )

    def _turn(self, now: float) -> Entry | None:
        """Who is next where a place is free; it still waits."""
        heads: list[tuple[ClassQueue, Entry]] = []
        others = []
        for name, queue in self.queues.items():
            head = None
            if queue.waiting and self.room.is_open(name, now):
                head = queue.turn(now, self.room.lane_is_open, self._prefixes.known)
            if head is None:
                others.append(queue.account)
            else:
                heads.append((queue, head))
        self._time.stand([queue.account for queue, _ in heads], others)
        if len(heads) > 1:
            heads.sort(key=lambda each: self._standing(each[0], each[1], now))
        return heads[0][1] if heads else None

    def _standing(
        self, queue: ClassQueue, head: Entry, now: float
    ) -> tuple[bool, bool, float, int]:
        """Of a class among those that could be next; the smallest is."""
        overdue, below = queue.overdue(now), self.room.below_floor(head.service_class)
        return not overdue, not below, queue.account.time, -queue.policy.rank

    def _guess(self, entry: Entry, outputs: float) -> None:
        """What it will cost, as far as that can be told now. outputs: tokens that answers of its
        tenant have."""
        entry.cached = self._prefixes.known(entry.prefixes, entry.prompt)
        entry.expected = min(entry.max_tokens, round(outputs))

    def _size_up(self, entry: Entry) -> None:
        """What a newcomer will cost, and until when it is worth anything."""
        queue = self.queues[entry.service_class]
        self._guess(entry, queue.outputs(entry.tenant))
        patience = queue.policy.deadline + self._alone(entry)
        entry.deadline = min(entry.asked, entry.arrived + patience)

    def _place(self, queue: ClassQueue, entry: Entry, now: float) -> None:
        entry.placed = now
        queue.begin(entry, now)
        self._waiting_in[entry.long] -= 1
        if not self.room.is_prefilling:
            self._prefilled.skip(now, busy=True)
        self.room.take(entry)
        self._steps.take(entry)
        self._prefixes.note(entry.prefixes)
        if entry.siblings is not None:
            self._begin_siblings(entry, entry.siblings)

    def _begin_siblings(self, entry: Entry, siblings: Siblings) -> None:
        siblings.waiting.pop(entry, None)
        if not siblings.begun:
            siblings.begun = True
            for other in siblings.waiting:
                self.queues[other.service_class].keep(other)

    def _start(self, entry: Entry, now: float) -> None:
        self.room.start(entry)
        self._steps.start(entry, now)
        entry.started = True
        self._prefilled.note(entry.uncached, now, busy=self.room.is_prefilling)

    def _leave(self, entry: Entry, now: float, *, computed: bool) -> None:
        self.room.leave(entry, now)
        self._steps.leave(entry)
        if not computed:
            # Nobody knows how much of its prompt was computed, and when.
            self._prefilled.skip(now, busy=self.room.is_prefilling)
            self._prefixes.forget(entry.prefixes)

    def _earliest(self) -> Entry | None:
        """Who of those that wait has the earliest deadline; None if nobody has any."""
        while self._deadlines:
            deadline, _, entry = self._deadlines[0]
            if entry.waits and entry.deadline == deadline:
                return entry
            heapq.heappop(self._deadlines)
        return None

    def _expire(self, moves: Moves, now: float) -> None:
        while (entry := self._earliest()) is not None and entry.deadline <= now:
            waited = f"it waited for {now - entry.arrived:.1f} s, until its deadline"
            if self.room.places:
                self._shed(moves, entry, Shed("waited_too_long", waited, 1.0), now)
            else:
                self._shed(moves, entry, _no_worker(self._outage.left(now)), now)

    def _trim(self, moves: Moves, now: float) -> None:
        """Turn away who waits beyond the queue's cap: the last of whoever has most waiting, so
        that a flood shuts nobody else out."""
        self._crowded = False
        for queue in self.queues.values():
            while queue.waiting > queue.policy.max_queue:
                if (last := queue.last_of_greediest()) is None:
                    break
                self._shed(moves, last, self._full(queue), now)

    def _shed(self, moves: Moves, entry: Entry, shed: Shed, now: float) -> None:
        self.withdraw(entry, now)
        self._count(entry, shed)
        moves.shed.append((entry, shed))

    def _count(self, entry: Entry, shed: Shed) -> None:
        self.sheds[entry.service_class, shed.reason] += 1

    # Estimates.

    def _refusal(self, entry: Entry, now: float) -> Shed | None:
        """Why a newcomer that was sized up may not wait."""
        if entry.siblings is not None and entry.siblings.begun:
            return None
        queue = self.queues[entry.service_class]
        left = entry.deadline - now
        is_open = self.room.is_open(entry.service_class, now)
        if left <= 0:
            return _late(self._prefill_time(entry), left, 1.0)
        if is_open and not queue.waiting_in[entry.long]:
            return None
        if queue.waiting >= queue.policy.max_queue and queue.is_greediest(entry):
            return self._full(queue)
        outage = self._outage.left(now)
        if outage > left:
            return _no_worker(outage)
        if left == math.inf:
            return None
        rate = self._rate(entry.long)
        if rate is None:
            return None
        prefill = self._prefill_time(entry)
        one = queue.typical_cost(entry)
        error = self._error(queue, entry.long)
        most = _most(left - error * prefill, one / rate, error)
        wait = outage + self._until_turn(queue, entry, rate, most, None if is_open else one)
        return _late(wait + prefill, left, wait - most) if wait > most else None

    def _error(self, queue: ClassQueue, long: bool) -> float:
        """So many times what is estimated a wait may take."""
        alone = queue.waiting_in[long] == self._waiting_in[long]
        return RATE_ERROR if alone else SHARE_ERROR

    def _until_turn(
        self, queue: ClassQueue, entry: Entry, rate: float, seconds: float, one: float | None
    ) -> float:
        """Whether a newcomer's turn comes within so many seconds: less than that if it does, else
        more. By what was served a second of late, what waits, and what comes meanwhile; and by
        when places become free. rate: cost that is served a second. one: what a request costs;
        None where a place is free."""
        long = entry.long
        now = entry.arrived
        waiting = coming = 0.0
        for each in self.queues.values():
            waiting += each.backlog[long]
            coming += each.inflow[long].value(now)
        everything = waiting + coming * seconds
        latest = self._until_free(everything, rate, one)
        if latest <= seconds:
            return latest  # in whatever order
        work = queue.work_before(entry, seconds)
        end = self._time.end(queue.account, work)
        for name, other in self.queues.items():
            if other is queue:
                continue
            if other.waiting and not self.room.is_above_floor(name):
                # It lives on its places and not on its share: it is served beside the others.
                rate -= min(other.outflow.value(now), rate / 2)
            else:
                backlog = other.backlog[long] + other.inflow[long].value(now) * seconds
                work += self._time.work_before(end, other.account, backlog)
        return self._until_free(work, rate, one)

    def _until_free(self, work: float, rate: float, one: float | None) -> float:
        """Seconds until so much work is served and a place is free."""
        seconds = work / rate
        if one is None:
            return seconds
        return max(seconds, self._steps.until_free(1 + int(work / one)))

    def _rate(self, long: bool) -> float | None:
        """Cost that is served a second when the worker is full."""
        places = self.room.long_places if long else self.room.places
        taken = self.room.long_running if long else self.room.taken
        return self._served[long].value(taken / places if places else 1.0)

    def _prefill_time(self, entry: Entry) -> float:
        """Seconds from its turn to its first token."""
        rate = self._prefilled.value
        if rate is None:
            return 0.0
        return (self.room.prefilling[entry.long] + entry.prompt - entry.cached) / rate

    def _alone(self, entry: Entry) -> float:
        """Seconds that its own prompt takes."""
        rate = self._prefilled.value
        return entry.uncached / rate if rate else 0.0

    def _full(self, queue: ClassQueue) -> Shed:
        rate = self._rate(long=False)
        wait = queue.backlog[False] / rate / 2 if rate else 1.0
        message = f"{queue.waiting} requests of its class are waiting and no more may join them"
        return Shed("queue_full", message, wait)


def _most(left: float, one: float, error: float) -> float:
    """How long a wait may be by estimate, so that it is no longer than so many seconds though
    estimates err. one: seconds that a request takes of a full worker."""
    if left <= 0:
        return 0.0
    luck = LUCK * math.sqrt(one)
    # error * x + luck * sqrt(x) = left
    root = (math.sqrt(luck * luck + 4 * error * left) - luck) / (2 * error)
    return root * root


def _late(begin: float, left: float, retry: float) -> Shed:
    left = max(left, 0.0)
    message = f"it might not begin in time: in about {begin:.1f} s, its deadline is in {left:.1f} s"
    return Shed("would_be_late", message, retry)


def _no_worker(left: float) -> Shed:
    message = f"no engine is running; one is expected in about {max(left, 1):.0f} s"
    return Shed("no_worker", message, left)
