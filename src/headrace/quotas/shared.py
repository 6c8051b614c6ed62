"""Counters that all edges share, and what an edge does while they are out of reach."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from headrace.quotas.errors import StoreUnavailable
from headrace.quotas.limit import Draw, Limit
from headrace.quotas.memory import MemoryStore
from headrace.quotas.store import Outcome, Settlement
from headrace.quotas.tally import QuotaTally
from headrace.quotas.underway import Live, Underway
from headrace.quotas.valkey import Manner, ValkeyStore

CALL_SECONDS = 0.05
"""How long a request waits for the shared counters."""

GRACE_SECONDS = 0.005

FAILURES = 3
"""Calls in a row that fail before no request waits for the shared counters any more."""

RENEW_SECONDS = 4.0
RENEW_AFTER = 6.0
"""Leases are renewed between this age and RENEW_SECONDS more; they last `valkey.LEASE`."""

RENEWED_AT_ONCE = 16
PROBE_SECONDS = 0.5
PROBE_PATIENCE = 1.0

BACKLOG = 65536
"""Ends of reservations that wait for the shared counters; the oldest go first. What is then lost
of budgets is in the books."""

T = TypeVar("T")

log = structlog.get_logger("headrace.quotas")


@dataclass(frozen=True, slots=True)
class End:
    """A settlement that the shared counters have not confirmed."""

    account: str
    id: str
    settlements: Sequence[Settlement]
    manner: Manner
    moment: int


class SharedStore:
    """`store.Store`: the shared counters decide. Where they do not answer in time, this edge
    decides by its own: a share of each limit, by the number of edges known last, and of budgets a
    share of what was left.

    Own counters always know what this edge does. When the shared ones answer again they are told
    what they missed: what is on its way, what ended and what was spent.
    """

    def __init__(
        self,
        shared: ValkeyStore,
        tally: QuotaTally,
        *,
        call_seconds: float = CALL_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared
        self._tally = tally
        self._call_seconds = call_seconds
        self._own = MemoryStore()
        self._spent: dict[tuple[str, str], int] = {}  # of budgets, when this edge was left alone
        self._underway = Underway(RENEW_AFTER, monotonic)
        self._backlog: deque[End] = deque(maxlen=BACKLOG)
        self._failures = 0
        self._troubled = asyncio.Event()
        self._ending: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Be known to the other edges. Where the counters cannot be reached it begins alone."""
        try:
            await self._heartbeat()
        except StoreUnavailable as error:
            self._give_up(error)
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, *self._ending, return_exceptions=True)
        with contextlib.suppress(StoreUnavailable):  # then its lease lapses
            await self._in_time(self._shared.leave())
        await self._shared.close()

    async def reserve(
        self, account: str, id: str, draws: Sequence[Draw], *, forced: bool = False
    ) -> Outcome:
        if not self._tally.alone:
            try:
                outcome = await self._in_time(
                    self._shared.reserve(account, id, draws, forced=forced)
                )
            except (StoreUnavailable, asyncio.CancelledError) as error:
                nothing = [Settlement(draw.limit, draw.amount, 0) for draw in draws]
                self._remember(End(account, id, nothing, "void", _now()))
                if isinstance(error, asyncio.CancelledError):
                    raise
            else:
                if outcome.status == "granted":
                    self._underway.add(id, Live(account, draws, shared=True))
                    await self._own.reserve(account, id, draws, forced=True)
                return outcome
        return await self._decide_alone(account, id, draws)

    async def settle(self, account: str, id: str, settlements: Sequence[Settlement]) -> None:
        live = self._underway.pop(id)
        if live is None:
            return
        await self._settle_own(account, id, settlements)
        end = End(account, id, settlements, "first", _now())
        if self._tally.alone or not live.shared:
            self._remember(end)
            return
        ending = asyncio.create_task(self._end(end))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        await asyncio.shield(ending)

    async def seed(self, account: str, counter: str, spent: int) -> None:
        if not self._tally.alone:
            try:
                await self._in_time(self._shared.seed(account, counter, spent))
                return
            except StoreUnavailable:
                pass  # then the decision is this edge's own
        self._spent[account, counter] = spent
        await self._own.seed(account, counter, spent)

    async def look(self, account: str, limits: Sequence[Limit]) -> Outcome:
        if not self._tally.alone:
            try:
                return await self._in_time(self._shared.look(account, limits))
            except StoreUnavailable:
                pass
        shares = [self._share(account, Draw(limit, 0)).limit for limit in limits]
        return await self._own.look(account, shares)

    async def _decide_alone(self, account: str, id: str, draws: Sequence[Draw]) -> Outcome:
        self._tally.decided_alone += 1
        shares = [self._share(account, draw) for draw in draws]
        outcome = await self._own.reserve(account, id, shares)
        if outcome.status == "granted":
            self._underway.add(id, Live(account, draws, shared=False))
        return outcome

    async def _settle_own(self, account: str, id: str, settlements: Sequence[Settlement]) -> None:
        if self._tally.alone:
            settlements = [
                Settlement(self._share(account, Draw(s.limit, 0)).limit, s.drawn, s.used)
                for s in settlements
            ]
        await self._own.settle(account, id, settlements)

    def _share(self, account: str, draw: Draw) -> Draw:
        """A bucket whose share is less than the request alone needs lets it pass when it is full,
        and then is in debt; of budgets there is never more than there is."""
        limit, amount = draw.limit, draw.amount
        edges = self._tally.edges
        if limit.kind == "budget":
            spent = self._spent.get((account, limit.counter), 0)
            size = spent + max(0, limit.size - spent) // edges
            return Draw(replace(limit, size=size), amount)
        rate = max(1, limit.size // edges)
        size = max(rate, amount) if limit.kind == "rate" else rate
        return Draw(replace(limit, size=size, rate=rate), amount)

    async def _in_time(self, call: Awaitable[T]) -> T:
        """Raises StoreUnavailable."""
        try:
            answer = await _patiently(call, self._call_seconds)
        except StoreUnavailable as error:
            self._note_failure(error)
            raise
        self._failures = 0
        return answer

    def _note_failure(self, error: StoreUnavailable) -> None:
        """With the first of a row, what is known of budgets is no longer fresh."""
        self._tally.failures += 1
        if not self._failures:
            self._spent.clear()
            self._own.forget_spent()
        self._failures += 1
        if self._failures >= FAILURES:
            self._give_up(error)

    def _give_up(self, error: StoreUnavailable) -> None:
        if not self._tally.alone:
            self._tally.alone = True
            self._tally.outages += 1
            self._troubled.set()
            log.warning("quotas_alone", reason=str(error), share=f"1/{self._tally.edges}")

    async def _end(self, end: End) -> None:
        try:
            await self._in_time(self._send(end))
        except StoreUnavailable:
            self._remember(replace(end, manner="again"))

    async def _send(self, end: End) -> None:
        await self._shared.settle(
            end.account, end.id, end.settlements, manner=end.manner, moment=end.moment
        )

    def _remember(self, end: End) -> None:
        if len(self._backlog) == BACKLOG:
            log.error("quotas_backlog_full", lost=self._backlog[0].id)
        self._backlog.append(end)
        self._troubled.set()

    async def refresh(self) -> None:
        """Renew leases, and tell the shared counters what they missed. Raises StoreUnavailable."""
        await self._heartbeat()
        await self._catch_up()

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._troubled.wait()
                await asyncio.sleep(PROBE_SECONDS)
            try:
                await self.refresh()
            except StoreUnavailable as error:
                self._note_failure(error)
                self._give_up(error)
            except Exception:
                log.exception("quotas_watch_failed")

    async def _heartbeat(self) -> None:
        """Where the counters do not know this edge any more, they may have lost everything."""
        edges, known = await _patiently(self._shared.be_there())
        self._tally.edges = max(1, edges)
        if not known:
            self._underway.hurry_all()

    async def _catch_up(self) -> None:
        """Tell the shared counters what they missed. Raises StoreUnavailable."""
        while self._backlog:
            end = self._backlog.popleft()
            try:
                await _patiently(self._send(end))
            except StoreUnavailable:
                again: Manner = "void" if end.manner == "void" else "again"
                self._backlog.appendleft(replace(end, manner=again))
                raise
        if self._tally.alone:
            self._underway.hurry_all()
        while due := self._underway.due(RENEWED_AT_ONCE):
            kept = await asyncio.gather(*map(self._keep, due), return_exceptions=True)
            for failure in filter(None, kept):
                self._underway.hurry_all()
                raise failure
        self._troubled.clear()
        if self._tally.alone:
            self._tally.alone = False
            self._failures = 0
            log.info("quotas_shared", edges=self._tally.edges)

    async def _keep(self, account: str) -> None:
        """Renew the lease of what is on its way, and tell of what is not known there: decided
        alone, or forgotten by a server that lost its memory."""
        mine = self._underway.of(account)
        self._underway.renewed(account)  # what comes meanwhile may be due at once
        known = await _patiently(self._shared.renew(account))
        if known >= len(mine) and all(live.shared for live in mine.values()):
            return
        for id, live in mine.items():
            if id not in self._underway:
                continue  # it has ended meanwhile
            await _patiently(self._shared.reserve(account, id, live.draws, forced=True))
            live.shared = True
            if id not in self._underway:
                # It ended meanwhile, which the counters may have heard before they heard of it.
                nothing = [Settlement(draw.limit, draw.amount, 0) for draw in live.draws]
                self._remember(End(account, id, nothing, "again", _now()))


async def _patiently(call: Awaitable[T], seconds: float = PROBE_PATIENCE) -> T:
    """Raises StoreUnavailable. A loop that was busy for so long still gets to read an answer that
    came meanwhile."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:
            nearly = loop.call_later(
                seconds - GRACE_SECONDS, lambda: limit.reschedule(loop.time() + GRACE_SECONDS)
            )
            try:
                return await call
            finally:
                nearly.cancel()
    except TimeoutError:
        raise StoreUnavailable(f"no answer in {seconds * 1000:g} ms") from None


def _now() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000
