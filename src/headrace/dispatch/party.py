"""A tenant in a class."""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from headrace.dispatch.entry import Entry
from headrace.dispatch.fairness import Account
from headrace.dispatch.line import Line
from headrace.dispatch.pace import Flow


class Party:
    """outputs: tokens that its answers have on average. lines: its requests that wait, and inflow:
    cost of what it brings, both by lane (whether requests are long). waiting, running: how many
    requests are without and with a place."""

    __slots__ = ("account", "id", "inflow", "lines", "outputs", "running", "waiting")

    def __init__(self, id: UUID, account: Account, outputs: float) -> None:
        self.id = id
        self.account = account
        self.outputs = outputs
        self.lines: dict[bool, Line] = defaultdict(Line)
        self.inflow: dict[bool, Flow] = defaultdict(Flow)
        self.waiting = 0
        self.running = 0

    @property
    def idle(self) -> bool:
        """Whether it has nothing going on."""
        return not (self.waiting or self.running)

    @property
    def greed(self) -> float:
        """How much waits for its weight."""
        return self.waiting / self.account.weight

    @property
    def busy_lines(self) -> list[Line]:
        return [line for line in self.lines.values() if line]

    @property
    def last(self) -> Entry:
        return max((line.last for line in self.busy_lines), key=lambda e: (e.deadline, e.arrived))

    @property
    def oldest(self) -> float:
        """When the one who waits longest came."""
        return min(line.oldest.arrived for line in self.busy_lines)
