"""Where administration happens: in the database, on its threads, and known to all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from headrace.access.changes import Changes
from headrace.edge.admin.known import Installed
from headrace.store.database import Database
from headrace.store.reports import Reports

T = TypeVar("T")


class Office:
    """pepper: of the digests of keys. installed: the versions of a served model that are."""

    def __init__(
        self,
        database: Database,
        changes: Changes,
        pepper: bytes,
        installed: Installed = lambda _: (),
    ) -> None:
        self.pepper = pepper
        self.installed = installed
        self._database = database
        self._changes = changes
        self._reports = Reports(database)

    async def look(self, work: Callable[[Connection], T]) -> T:
        """For what an index finds, such as one row or one page. Raises DatabaseUnavailable."""
        return await self._database.run(work)

    async def report(self, whose: str, work: Callable[[Connection], T]) -> T:
        """For what may take long. whose: the key that asks. See `store.reports.Reports.run`."""
        return await self._reports.run(whose, work)

    async def change(self, work: Callable[[Connection], T]) -> T:
        """When this returns the change is committed, told to the other processes, and this one
        has forgotten what was before. Raises DatabaseUnavailable if any of it can't be."""
        result = await self._database.run(work, write=True)
        await self._changes.refresh()
        return result
