"""Money that charges sum up to, for budgets."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, func, select

from headrace.store.database import Database
from headrace.store.schema import charges


class Spending:
    """Asks the books. Requests on their way have cost nothing yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def spent(self, tenant: UUID, key_id: str | None, since: int) -> int:
        """Nano-units of money for a tenant's requests, or those by one of its keys, that began at
        or after a moment in unix milliseconds. Raises DatabaseUnavailable."""
        return await self._database.run(lambda c: sum_costs(c, tenant, key_id, since))


def sum_costs(connection: Connection, tenant: UUID, key_id: str | None, since: int) -> int:
    query = select(func.coalesce(func.sum(charges.c.cost), 0)).where(
        charges.c.tenant_id == tenant, charges.c.opened_at >= since
    )
    if key_id is not None:
        query = query.where(charges.c.key_id == key_id)
    return int(connection.scalars(query).one())
