"""Sums over charges."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.ledger.ledger import Ledger
from headrace.ledger.usage import UsageRow, sum_usage
from headrace.store.database import Database

from .books import EDGE, Books, close, create_holder

DAY = 86_400.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def three_days(database: Database) -> tuple[Books, Books]:
    """Of acme: one request on the first day, one on its last millisecond, one on the third.
    Of globex: one on the third, still on its way."""
    acme = Books(database, create_holder(database))
    globex = Books(database, create_holder(database, "globex"))
    clock = Clock()
    ledger = Ledger(database, EDGE, now=clock)
    await ledger.start()
    for seconds, model in [(0, "a"), (DAY - 0.001, "b"), (2 * DAY, "a")]:
        clock.now = seconds
        charge = acme.charge(model=model)
        await ledger.open(charge).committed()
        await close(ledger, charge.id)
    await ledger.open(globex.charge(model="b")).committed()
    await ledger.stop()
    return acme, globex


def row(group: str, requests: int, closed: int) -> UsageRow:
    return UsageRow(
        group=group,
        requests=requests,
        prompt_tokens=5 * closed,
        cached_tokens=2 * closed,
        completion_tokens=7 * closed,
    )


def ask(books: Books, by: Any, **limits: Any) -> list[UsageRow]:
    with books.database.transaction() as connection:
        return sum_usage(connection, by=by, **limits)


async def test_by_day(three_days: tuple[Books, Books]) -> None:
    assert ask(three_days[0], "day") == [row("1970-01-01", 2, 2), row("1970-01-03", 2, 1)]


async def test_by_model_key_and_tenant(three_days: tuple[Books, Books]) -> None:
    acme, globex = three_days
    assert ask(acme, "model") == [row("a", 2, 2), row("b", 2, 1)]
    assert ask(acme, "tenant") == [row("acme", 3, 3), row("globex", 1, 0)]
    expected = [row(acme.holder.id, 3, 3), row(globex.holder.id, 1, 0)]
    assert ask(acme, "key") == sorted(expected, key=lambda r: r.group)


async def test_of_one_tenant_since_a_moment(three_days: tuple[Books, Books]) -> None:
    since = datetime(1970, 1, 1, 12, tzinfo=UTC)
    assert ask(three_days[0], "tenant", tenant="acme", since=since) == [row("acme", 2, 2)]
    assert ask(three_days[0], "day", tenant="nobody") == []
