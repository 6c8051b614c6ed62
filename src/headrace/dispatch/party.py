"""A tenant in a class."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from headrace.dispatch.entry import Entry
from headrace.dispatch.fairness import Account
from headrace.dispatch.line import Line
from headrace.dispatch.pace import Flow


@dataclass(eq=False, slots=True)
class Party:
    """outputs: tokens that its answers have on average. lines: its requests that wait, and inflow:
    cost of what it brings, both by lane (whether requests are long). waiting, running: how many
    requests are without and with a place."""

    id: UUID
    account: Account
    outputs: float
    lines: dict[bool, Line] = field(default_factory=lambda: defaultdict(Line))
    inflow: dict[bool, Flow] = field(default_factory=lambda: defaultdict(Flow))
    waiting: int = 0
    running: int = 0

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
