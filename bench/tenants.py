"""What a request costs where many tenants are known: processor time of one turn of each table.

    python bench/tenants.py
    python bench/tenants.py dispatch       rows with that word alone

Each row is one kind of work, measured with 10, 1,000 and 100,000 known tenants. A row is a function
that sets up so many tenants and returns the work of one request; `ROWS` names them all.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable
from uuid import UUID

from headrace.dispatch.arbiter import Arbiter
from headrace.dispatch.entry import Entry
from headrace.dispatch.policy import adjusted, usual_policies

KNOWN = (10, 1_000, 100_000)
PLACES = 64
STEP = 0.01  # seconds between two requests, of the clock that is played

Work = Callable[[], object]
Row = Callable[[int], Work]
"""Sets up so many known tenants; returns the work of one request."""


class Dispatch:
    """An arbiter that is played: each request is a join, an advance, a note and an end. waiting:
    requests that wait all the time, each of another tenant as far as there are so many. Answers
    have more tokens than expected, so that more is served than comes and nobody is refused."""

    def __init__(self, known: int, waiting: int) -> None:
        usual = usual_policies(2 * waiting + PLACES)
        endless = {"deadline": 1e9, "age": 1e9}
        self._arbiter = Arbiter(adjusted(usual, {"default": endless}))
        self._arbiter.resize(PLACES)
        self._now = 0.0
        self._running: list[Entry] = []
        self._most = PLACES if waiting else PLACES - 1
        self._tenants = itertools.cycle(UUID(int=number + 1) for number in range(known))
        for _ in range(max(known, 4 * PLACES)):
            self.request()
        while self._arbiter.waiting < waiting:
            for _ in range(4):
                self.request()
            self._join()

    def request(self) -> None:
        """The one that has run longest ends, and another comes."""
        self._now += STEP
        if len(self._running) == self._most:
            ended = self._running.pop(0)
            self._arbiter.note(ended, 80, self._now)
            self._arbiter.end(ended, self._now, cached=0, answered=True)
            self._advance()
        self._join()

    def _join(self) -> None:
        newcomer = Entry(
            tenant=next(self._tenants),
            weight=1,
            service_class="default",
            long=False,
            prompt=100,
            max_tokens=20,
            arrived=self._now,
        )
        if shed := self._arbiter.join(newcomer, self._now):
            raise AssertionError(shed.message)
        self._advance()

    def _advance(self) -> None:
        self._running += self._arbiter.advance(self._now).placed


def dispatch(known: int) -> Work:
    return Dispatch(known, 0).request


def dispatch_with_waiting(known: int) -> Work:
    return Dispatch(known, 1_000).request


ROWS: dict[str, Row] = {
    "dispatch, nobody waits": dispatch,
    "dispatch, 1,000 wait": dispatch_with_waiting,
}


def microseconds(work: Work, seconds: float) -> float:
    """Processor time of one call, where the least of ten measurements was disturbed least."""
    work()
    rounds = 1
    while True:
        start = time.process_time()
        for _ in range(rounds):
            work()
        if time.process_time() - start > seconds / 20:
            break
        rounds *= 2
    taken = []
    for _ in range(10):
        start = time.process_time()
        for _ in range(rounds):
            work()
        taken.append((time.process_time() - start) / rounds)
    return 1e6 * min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("word", nargs="?", default="", help="measure only rows with this word")
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, about, a figure")
    args = parser.parse_args()
    random.seed(1)
    print("microseconds a request".ljust(32), *(f"{known:>9,}" for known in KNOWN), "known tenants")
    for name, row in ROWS.items():
        if args.word in name:
            figures = (microseconds(row(known), args.seconds) for known in KNOWN)
            print(name.ljust(32), *(f"{figure:9.1f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
