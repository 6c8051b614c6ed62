"""A charge that is on its way into the books."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.store.errors import DatabaseUnavailable


class Opening:
    """Await `committed` before anything of the answer leaves. So the work can begin meanwhile, and
    what an answer cost is known even if this process dies.

    written: resolved when it is committed. patience: seconds that whoever awaits it will wait.
    hurry: says that somebody waits. withdraw: ends the charge, which may be on its way still.
    late: makes the error for one that was not written in time.
    """

    __slots__ = ("_hurry", "_late", "_patience", "_withdraw", "_written")

    def __init__(
        self,
        written: asyncio.Future[None],
        patience: float,
        hurry: Callable[[], object],
        withdraw: Callable[[], object],
        late: Callable[[], DatabaseUnavailable] = DatabaseUnavailable,
    ) -> None:
        self._written = written
        self._patience = patience
        self._hurry = hurry
        self._withdraw = withdraw
        self._late = late

    @property
    def failed(self) -> bool:
        """Whether there is nothing to close: `committed` raised, or would."""
        written = self._written
        return written.done() and (written.cancelled() or written.exception() is not None)

    async def committed(self) -> None:
        """Wait until it is. If this raises or is cancelled nothing is left to close.

        Raises DatabaseUnavailable: it could not be written in time.
        """
        if not self._written.done():
            await self._wait()
        self._written.result()

    async def _wait(self) -> None:
        self._hurry()
        patience = asyncio.get_running_loop().call_later(self._patience, self._lose_patience)
        try:
            await self._written
        except asyncio.CancelledError:
            self._withdraw()
            raise
        finally:
            patience.cancel()

    def _lose_patience(self) -> None:
        if not self._written.done():
            self._written.set_exception(self._late())
            self._withdraw()
