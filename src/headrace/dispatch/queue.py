"""Who waits in a class, and which of them is next."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from uuid import UUID

from headrace.dispatch.entry import Entry
from headrace.dispatch.fairness import Account, VirtualTime
from headrace.dispatch.pace import OUTFLOW_MEMORY, Flow
from headrace.dispatch.party import Party
from headrace.dispatch.policy import ClassPolicy
from headrace.dispatch.ranking import Ranking

SLACK = 10_000.0
"""Virtual time within which tenants count as level, and the longest cached prefix decides: a
thousand prompt tokens of a tenant of weight 1."""

LEVEL = 8
"""Tenants that are looked at for that, those that were served least."""

HEAVY = 4
"""Tenants that estimates look at one by one, those that have most waiting. All others are estimated
together."""

SPIKE_LASTS = 1.25
"""More than can be served is expected to come for so many times as long as it has."""

FIRST_GUESS = 256.0
"""Tokens an answer has, before any was seen."""

LEARNING = 0.1
"""How much the latest answer counts in the guess for the next."""


class ClassQueue:
    """Tenants take turns by what they were served, each with its most urgent request.

    Nothing here takes longer the more tenants are known, but for searches in sorted lists of
    those who wait. A tenant with nothing going on is forgotten when the others have been served
    as much as it was.
    """

    def __init__(self, policy: ClassPolicy) -> None:
        self.policy = policy
        self.account = Account(policy.share)
        self.inflow = {False: Flow(), True: Flow()}
        self.outflow = Flow(OUTFLOW_MEMORY)  # cost that is served
        self.served_at = 0.0
        self.since = 0.0  # when those who wait began to
        self.waiting = 0  # in both lanes
        self.waiting_in = {False: 0, True: 0}  # lanes, by whether they are of long requests
        self.backlog = {False: 0, True: 0}  # cost of what waits, by lane
        self.parties: dict[UUID, Party] = {}
        self._time = VirtualTime()
        self._turns: dict[bool, Ranking[Party]] = {False: Ranking(), True: Ranking()}
        self._greed: Ranking[Party] = Ranking()
        self._arrivals: dict[Entry, None] = {}
        self._idle: list[tuple[float, int, Party]] = []
        self._serial = count()
        self._weight_waiting = 0.0
        self._weight_running = 0.0
        self._barred_until = 0.0  # virtual time at which long requests were last kept back
        self._with_prefixes = 0  # of those who wait
        self._outputs = FIRST_GUESS

    def party(self, tenant: UUID, weight: int) -> Party:
        """Of this tenant: the one that is known, else a new one that nobody keeps yet."""
        known = self.parties.get(tenant)
        return Party(tenant, Account(weight), self._outputs) if known is None else known

    def outputs(self, tenant: UUID) -> float:
        """Tokens that its answers have on average."""
        party = self.parties.get(tenant)
        return self._outputs if party is None else party.outputs

    def add(self, entry: Entry) -> None:
        party = self.parties.get(entry.tenant)
        if party is None:
            account = Account(entry.weight, self._time.now)
            party = Party(entry.tenant, account, self._outputs)
            self.parties[entry.tenant] = party
        elif party.account.weight != entry.weight:
            self._reweigh(party, entry.weight)
        entry.party = party
        if not party.waiting:
            self._time.enter(party.account)
            self._weight_waiting += party.account.weight
        if not self.waiting:
            self.since = entry.arrived
        long = entry.long
        cost = party.lines[long].add(entry)
        party.inflow[long].note(cost, entry.arrived)
        self.inflow[long].note(cost, entry.arrived)
        entry.waits = True
        self._arrivals[entry] = None
        self._turns[long].put(party, party.account.time)
        self._count(party, entry, 1, cost)

    def withdraw(self, entry: Entry, now: float) -> bool:
        """It waits no more and was not served, so it doesn't count as having come. Whether it
        was there."""
        if not entry.waits:
            return False
        party = entry.party
        cost = self._remove(party, entry)
        for inflow in (party.inflow, self.inflow):
            inflow[entry.long].take_back(cost, entry.arrived, now)
        self._forget(party)
        return True

    def keep(self, entry: Entry) -> None:
        """It waits, and goes before all others of its tenant from now on."""
        entry.party.lines[entry.long].keep(entry)

    def turn(
        self,
        now: float,
        lane: Callable[[Entry, bool], bool],
        known: Callable[[Sequence[bytes], int], int],
    ) -> Entry | None:
        """Who is next; None if nobody can be. It stays where it is. lane: whether the long
        lane takes an entry, which may be over age. known: how much of a prompt of so many tokens
        is cached, by its prefixes."""
        if self.waiting_in[True]:
            parties = self._able(now, lane)
        else:
            parties = self._turns[False].smallest(LEVEL if self._with_prefixes else 1)
        if not parties:
            return None
        least = parties[0].account.time
        self._time.reach(least)
        if not self._with_prefixes or len(parties) == 1:
            return self._head(parties[0], now, lane)
        best, most = None, -1
        level, age, all_short = least + SLACK, self.policy.age, not self.waiting_in[True]
        for party in parties:
            if party.account.time > level:
                break
            head = party.lines[False].head(now, age) if all_short else self._head(party, now, lane)
            if head is not None and (cached := known(head.prefixes, head.prompt)) > most:
                best, most = head, cached
        return best

    def _able(self, now: float, lane: Callable[[Entry, bool], bool]) -> list[Party]:
        """Those that were served least and could be next, the least first."""
        parties = self._turns[False].smallest(LEVEL)
        parties += [p for p in self._turns[True].smallest(LEVEL) if p not in parties]
        parties = [party for party in parties if self._may_be_next(party, now, lane)]
        parties.sort(key=lambda party: party.account.time)
        return parties

    def _may_be_next(self, party: Party, now: float, lane: Callable[[Entry, bool], bool]) -> bool:
        """Whether one of its requests can be placed. Those that could not for a while, as they are
        long, come back to where virtual time was then."""
        if self._head(party, now, lane) is None:
            self._barred_until = self._time.now
            return False
        if not party.lines[False]:
            party.account.lift(self._barred_until)
            self._rank(party)
        return True

    def _head(self, party: Party, now: float, lane: Callable[[Entry, bool], bool]) -> Entry | None:
        age = self.policy.age
        if not (self.waiting_in[True] and party.lines[True]):
            return party.lines[False].head(now, age)

        def young(entry: Entry) -> bool:
            return now - entry.arrived < age

        heads = [line.head(now, age) for line in party.busy_lines]
        heads = [head for head in heads if not head.long or lane(head, not young(head))]
        return min(heads, key=lambda e: (young(e), e.deadline, e.arrived), default=None)

    def overdue(self, now: float) -> bool:
        """Whether one has waited for `age` while nobody of the class was served."""
        if now - self.served_at < self.policy.age or not self._arrivals:
            return False
        return now - next(iter(self._arrivals)).arrived >= self.policy.age

    def last_of_greediest(self) -> Entry | None:
        """The last of who has most waiting for its weight; None if nobody waits but those who
        must not be turned away."""
        for party in self._greed:
            if not (last := party.last).kept:
                return last
        return None

    def is_greediest(self, entry: Entry) -> bool:
        """Whether nobody would have more waiting for its weight than a newcomer's tenant."""
        own = self.parties.get(entry.tenant)
        greed = ((0 if own is None else own.waiting) + 1) / entry.weight
        return all(party.greed <= greed for party in self._greed.smallest(2) if party is not own)

    def typical_cost(self, entry: Entry) -> float:
        """Of one of those that wait in its lane; of the newcomer itself if nobody does."""
        waiting = self.waiting_in[entry.long]
        return self.backlog[entry.long] / waiting if waiting else entry.cost

    def work_before(self, entry: Entry, seconds: float) -> float:
        """Cost of all in its lane of the class that is served before a newcomer's turn, were that
        to come in so many seconds: of what waits, and of what will have come.

        Each of those who have most waiting is looked at. All others together get no more than
        they have, nor more than takes their counters to where its own is; the smaller of the two
        counts, with all that they bring. So this errs only upwards: a request may be refused that
        would have been in time.
        """
        own, long, now = self.party(entry.tenant, entry.weight), entry.long, entry.arrived
        seconds = min(seconds, SPIKE_LASTS * (now - self.since))
        ahead = own.lines[long].cost_before(entry.deadline)
        end = self._time.end(own.account, ahead)
        work = float(ahead)
        waiting = self.backlog[long] - own.lines[long].cost
        coming = self.inflow[long].value(now) - own.inflow[long].value(now)
        weight = self._weight_waiting - (own.account.weight if own.waiting else 0.0)
        for party in self._greed.smallest(HEAVY):
            if party is own:
                continue
            backlog, inflow = party.lines[long].cost, party.inflow[long].value(now)
            waiting -= backlog
            coming -= inflow
            weight -= party.account.weight
            work += self._time.work_before(end, party.account, backlog + inflow * seconds)
        until_then = weight * max(end - self._time.now, 0.0)
        return work + min(waiting, until_then) + max(coming, 0.0) * seconds

    def charge(self, entry: Entry, cost: int) -> None:
        if not cost:
            return
        entry.charged += cost
        self.account.charge(cost)
        party = entry.party
        party.account.charge(cost)
        if party.waiting:
            self._rank(party)

    def serve(self, cost: int) -> None:
        """So much was served to those who run. While nobody waits, virtual time goes by that."""
        if not self.waiting and self._weight_running:
            self._time.serve(cost, self._weight_running)
            self._sweep()

    def begin(self, entry: Entry, now: float) -> None:
        """It has its place, and is charged what it is expected to cost."""
        party = entry.party
        cost = entry.charged = entry.cost
        self.account.charge(cost)
        party.account.charge(cost)
        self._remove(party, entry)
        if party.waiting:
            self._rank(party)
        if not party.running:
            self._weight_running += party.account.weight
        party.running += 1
        self.served_at = now

    def end(self, entry: Entry, answered: bool) -> None:
        """It has given its place back. answered: it ended by itself."""
        party = entry.party
        party.running -= 1
        if not party.running:
            self._weight_running -= party.account.weight
        if answered:
            party.outputs += LEARNING * (entry.generated - party.outputs)
            self._outputs += LEARNING * (entry.generated - self._outputs)
        self._forget(party)

    def _remove(self, party: Party, entry: Entry) -> int:
        """What it was expected to cost."""
        long = entry.long
        line = party.lines[long]
        cost = line.remove(entry)
        entry.waits = False
        del self._arrivals[entry]
        if not line:
            self._turns[long].discard(party)
        self._count(party, entry, -1, -cost)
        if not party.waiting:
            self._time.leave(party.account)
            self._weight_waiting -= party.account.weight
        return cost

    def _count(self, party: Party, entry: Entry, change: int, cost: int) -> None:
        long = entry.long
        self.waiting += change
        self.waiting_in[long] += change
        self.backlog[long] += cost
        if entry.prefixes:
            self._with_prefixes += change
        waiting = party.waiting = party.waiting + change
        if waiting:
            self._greed.put(party, -waiting / party.account.weight)
        else:
            self._greed.discard(party)

    def _rank(self, party: Party) -> None:
        """Its counter has changed while it waits for its turn."""
        for long, line in party.lines.items():
            if line:
                self._turns[long].put(party, party.account.time)

    def _reweigh(self, party: Party, weight: float) -> None:
        change = weight - party.account.weight
        party.account.reweigh(weight)
        if party.waiting:
            self._weight_waiting += change
        if party.running:
            self._weight_running += change

    def _forget(self, party: Party) -> None:
        """Drop it if it has nothing going on: now, or when the others have been served as much."""
        if party.idle:
            heapq.heappush(self._idle, (party.account.time, next(self._serial), party))
        self._sweep()

    def _sweep(self) -> None:
        while self._idle and self._idle[0][0] <= self._time.now:
            _, _, party = heapq.heappop(self._idle)
            if self._is_over(party) and self.parties.get(party.id) is party:
                del self.parties[party.id]

    def _is_over(self, party: Party) -> bool:
        return party.idle and party.account.time <= self._time.now
