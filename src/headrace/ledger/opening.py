"""A charge that is on its way into the books."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from headrace.store.errors import DatabaseUnavailable


class Opening:
    """Await it before anything of the answer leaves: then it is committed. So the work can begin
    meanwhile, and what an answer cost is known even if this process dies.

    written: resolved when it is committed. patience: seconds that whoever awaits it will wait.
    hurry: says that somebody waits. withdraw: ends the charge, which may be on its way still.
    """

    __slots__ = ("_hurry", "_patience", "_withdraw", "_written")

    def __init__(
        self,
        written: asyncio.Future[None],
        patience: float,
        hurry: Callable[[], None],
        withdraw: Callable[[], None],
    ) -> None:
        self._written = written
        self._patience = patience
        self._hurry = hurry
        self._withdraw = withdraw

    @property
    def failed(self) -> bool:
        """Whether there is nothing to close: awaiting it raised, or would."""
        written = self._written
        return written.done() and (written.cancelled() or written.exception() is not None)

    def __await__(self) -> Generator[object, None, None]:
        """If this raises or is cancelled nothing is left to close.

        Raises DatabaseUnavailable: it could not be written in time.
        """
        if not self._written.done():
            yield from self._committed().__await__()
        self._written.result()

    async def _committed(self) -> None:
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
            reason = f"no charge could be written in {self._patience:g} s"
            self._written.set_exception(DatabaseUnavailable(reason))
            self._withdraw()
