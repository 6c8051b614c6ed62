"""What requests cost is summed up for budgets."""

from __future__ import annotations

from headrace.ledger.ledger import Ledger
from headrace.ledger.spending import Spending
from headrace.store.database import Database

from .books import EDGE, Books, create_holder

DAY = 86_400_000


async def charge(
    books: Books, cost: int, moment: int = 5 * DAY, closed: bool = True, **who: str
) -> None:
    ledger = Ledger(books.database, EDGE, now=lambda: moment / 1000)
    await ledger.start()
    opened = books.charge(**who)
    await ledger.open(opened).committed()
    if closed:
        counts = {"prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": 0}
        await ledger.close(opened.id, **counts, reasoning_tokens=0, cost=cost, ending="stop")
    await ledger.stop()


async def test_costs_of_a_tenant_and_of_a_key_since_a_moment(
    database: Database, books: Books
) -> None:
    other = create_holder(database)
    await charge(books, 2**52)
    await charge(books, 2**52 + 1, key_id=other.id)
    await charge(books, 7, moment=5 * DAY - 1)
    spending, tenant = Spending(database), books.holder.tenant_id
    assert await spending.spent(tenant, None, 5 * DAY) == 2**53 + 1
    assert await spending.spent(tenant, other.id, 5 * DAY) == 2**52 + 1
    assert await spending.spent(tenant, None, 0) == 2**53 + 8


async def test_what_is_on_its_way_or_never_was_costs_nothing(
    database: Database, books: Books
) -> None:
    spending, tenant = Spending(database), books.holder.tenant_id
    assert await spending.spent(tenant, None, 0) == 0
    await charge(books, 9, closed=False)
    assert await spending.spent(tenant, None, 0) == 0
