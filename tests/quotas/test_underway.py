"""Reservations on their way: leases fall due by account, and an idle one costs nothing."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.quotas.underway import Live, Underway

AFTER = 6
ACCOUNTS = st.sampled_from("abc")


class Machine(RuleBasedStateMachine):
    """Against plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.live: dict[str, str] = {}
        self.renewed: dict[str, float] = {}
        self.made = 0
        self.underway = Underway(AFTER, lambda: self.now)

    @rule(account=ACCOUNTS, shared=st.booleans())
    def add(self, account: str, shared: bool) -> None:
        self.made += 1
        self.underway.add(str(self.made), Live(account, (), shared))
        self.live[str(self.made)] = account
        self.renewed[account] = self.now if shared else float("-inf")

    @rule(number=st.integers(1, 20))
    def pop(self, number: int) -> None:
        account = self.live.pop(str(number), None)
        popped = self.underway.pop(str(number))
        assert (None if popped is None else popped.account) == account
        if account is not None and account not in self.live.values():
            del self.renewed[account]

    @rule(account=ACCOUNTS)
    def renew(self, account: str) -> None:
        self.underway.renewed(account)
        if account in self.renewed:
            self.renewed[account] = self.now

    @rule()
    def hurry_all(self) -> None:
        self.underway.hurry_all()
        self.renewed = dict.fromkeys(self.renewed, float("-inf"))

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def tells_what_is_due(self) -> None:
        due = {account for account, at in self.renewed.items() if at <= self.now - AFTER}
        assert set(self.underway.due(10)) == due
        assert len(self.underway.due(1)) == min(1, len(due))
        for account in "abc":
            own = {id for id, whose in self.live.items() if whose == account}
            assert set(self.underway.of(account)) == own


TestUnderway = Machine.TestCase
