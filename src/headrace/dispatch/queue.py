"""Who waits in a class, and which of them is next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from headrace.dispatch.entry import Entry
from headrace.dispatch.fairness import Account, VirtualTime
from headrace.dispatch.line import Line
from headrace.dispatch.pace import Inflow
from headrace.dispatch.policy import ClassPolicy

SLACK = 10_000.0
"""Virtual time within which tenants count as level, and the longest cached prefix decides: a
thousand prompt tokens of a tenant of weight 1."""

FIRST_GUESS = 256.0
"""Tokens an answer has, before any was seen."""

LEARNING = 0.1
"""How much the latest answer counts in the guess for the next."""

KEPT = 64
"""Tenants that may be remembered with nothing going on before it is looked who can go."""


@dataclass(eq=False, slots=True)
class Party:
    """A tenant in a class. The lane of long requests has a line of its own. outputs: tokens
    its answers have on average. inflow: cost of what it brings,
    by lane. running: requests with a place."""

    id: UUID
    account: Account
    outputs: float
    short: Line = field(default_factory=Line)
    long: Line = field(default_factory=Line)
    inflow: dict[bool, Inflow] = field(default_factory=lambda: {False: Inflow(), True: Inflow()})
    running: int = 0

    def __len__(self) -> int:
        return len(self.short) + len(self.long)

    @property
    def lines(self) -> list[Line]:
        return [line for line in (self.short, self.long) if line]

    def line(self, entry: Entry) -> Line:
        return self.long if entry.long else self.short

    def backlog(self, long: bool) -> int:
        """Cost of what waits in a lane."""
        return (self.long if long else self.short).cost

    @property
    def last(self) -> Entry:
        return max((line.last for line in self.lines), key=lambda e: (e.deadline, e.arrived))

    @property
    def oldest(self) -> float:
        """When the one who waits longest came."""
        return min(line.oldest.arrived for line in self.lines)


class ClassQueue:
    """Tenants take turns by what they were served, each with its most urgent request."""

    def __init__(self, policy: ClassPolicy) -> None:
        self.policy = policy
        self.account = Account(policy.share)
        self.inflow = {False: Inflow(), True: Inflow()}
        self.served_at = 0.0
        self.waiting = 0  # in both lanes: asked for a dozen times a request
        self.waiting_in = {False: 0, True: 0}  # lanes, by whether they are of long requests
        self.parties: dict[UUID, Party] = {}
        self._time = VirtualTime()
        self._outputs = FIRST_GUESS
        self._sweep_at = KEPT

    def party(self, tenant: UUID, weight: int) -> Party:
        """Of this tenant: the one that is known, else a new one that nobody keeps yet."""
        known = self.parties.get(tenant)
        return Party(tenant, Account(weight), self._outputs) if known is None else known

    def expect(self, entry: Entry) -> int:
        """Tokens that its answer will have."""
        party = self.parties.get(entry.tenant)
        outputs = self._outputs if party is None else party.outputs
        return min(entry.max_tokens, round(outputs))

    def add(self, entry: Entry) -> None:
        party = self.parties[entry.tenant] = self.party(entry.tenant, entry.weight)
        party.account.reweigh(entry.weight)
        party.line(entry).add(entry)
        self._count(entry, 1)
        for inflow in (party.inflow, self.inflow):
            inflow[entry.long].note(entry.cost, entry.arrived)

    def remove(self, entry: Entry) -> bool:
        """Whether it was there."""
        party = self.parties.get(entry.tenant)
        if party is None or entry not in party.line(entry):
            return False
        party.line(entry).remove(entry)
        self._count(entry, -1)
        self._forget(party)
        return True

    def turn(
        self, now: float, lane: Callable[[Entry, bool], bool], known: Callable[[Entry], int]
    ) -> Entry | None:
        """Who is next; None if nobody can be. It stays where it is. lane: whether the long
        lane takes an entry, which may be over age. known: how much of its prompt is cached."""
        heads: dict[Account, Entry] = {}
        for party in self.parties.values():
            if party and (head := self._head(party, now, lane)):
                heads[party.account] = head
        self._time.stand(heads)
        if len(heads) <= 1:
            return next(iter(heads.values()), None)
        level = min(account.time for account in heads) + SLACK
        near = [account for account in heads if account.time <= level]
        if len(near) == 1:
            return heads[near[0]]
        return heads[max(near, key=lambda account: (known(heads[account]), -account.time))]

    def _head(self, party: Party, now: float, lane: Callable[[Entry, bool], bool]) -> Entry | None:
        def young(entry: Entry) -> bool:
            return now - entry.arrived < self.policy.age

        heads = [line.head(now, self.policy.age) for line in party.lines]
        heads = [head for head in heads if not head.long or lane(head, not young(head))]
        return min(heads, key=lambda e: (young(e), e.deadline, e.arrived), default=None)

    def _count(self, entry: Entry, change: int) -> None:
        self.waiting += change
        self.waiting_in[entry.long] += change

    def overdue(self, now: float) -> bool:
        """Whether one has waited for `age` while nobody of the class was served."""
        if now - self.served_at < self.policy.age:
            return False
        return any(now - p.oldest >= self.policy.age for p in self.parties.values() if p)

    def greediest(self) -> Party:
        """Who has most waiting for its weight. Raises ValueError if nobody waits."""
        return max((p for p in self.parties.values() if p), key=_greed)

    def is_greediest(self, entry: Entry) -> bool:
        """Whether nobody would have more waiting for its weight than a newcomer's tenant."""
        own = self.party(entry.tenant, entry.weight)
        greed = (len(own) + 1) / entry.weight
        return all(_greed(party) <= greed for party in self.parties.values() if party is not own)

    def work_before(self, entry: Entry, seconds: float) -> float:
        """Cost of all in its lane of the class that is served before a newcomer's turn, were that
        to come in so many seconds: of what waits, and of what will have come."""
        own, long = self.party(entry.tenant, entry.weight), entry.long
        others = (
            (party.account, party.backlog(long) + party.inflow[long].value(entry.arrived) * seconds)
            for party in self.parties.values()
            if party is not own
        )
        ahead = own.line(entry).cost_before(entry.deadline)
        return self._time.work_before(own.account, ahead, others)

    def backlog(self, long: bool) -> int:
        return sum(party.backlog(long) for party in self.parties.values())

    def charge(self, entry: Entry, cost: int) -> None:
        entry.charged += cost
        self.account.charge(cost)
        self.parties[entry.tenant].account.charge(cost)

    def begin(self, entry: Entry, now: float) -> None:
        """It has its place."""
        party = self.parties[entry.tenant]
        party.running += 1
        party.line(entry).remove(entry)
        self._count(entry, -1)
        self.served_at = now

    def end(self, entry: Entry, answered: bool) -> None:
        """It has given its place back. answered: it ended by itself."""
        party = self.parties[entry.tenant]
        party.running -= 1
        if answered:
            party.outputs += LEARNING * (entry.generated - party.outputs)
            self._outputs += LEARNING * (entry.generated - self._outputs)
        self._forget(party)

    def _forget(self, party: Party) -> None:
        """Drop who has nothing going on and no lead that would have to be remembered."""
        if self._is_over(party):
            del self.parties[party.id]
        if len(self.parties) >= self._sweep_at:
            for other in [p for p in self.parties.values() if self._is_over(p)]:
                del self.parties[other.id]
            self._sweep_at = max(KEPT, 2 * len(self.parties))

    def _is_over(self, party: Party) -> bool:
        return not (party or party.running) and party.account.time <= self._time.now

    def earliest(self) -> Iterator[Entry]:
        """Of each line the one whose deadline is first."""
        for party in self.parties.values():
            for line in party.lines:
                yield line.earliest


def _greed(party: Party) -> float:
    return len(party) / party.account.weight
