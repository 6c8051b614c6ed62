"""A request that has a place: its outputs as they come, and the way to stop it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.engine.output import Finish, Output
from headrace.fleet.mailbox import Mailbox


class Generation:
    """Async iterator of a request's Outputs; the last one, and only it, carries `finish`.

    Of outputs that arrive while nobody reads, many are merged, so a slow reader holds no more
    than its own generation. One reader at a time. Whoever stops reading early calls `cancel`.
    """

    def __init__(self, mailbox: Mailbox, cancel: Callable[[str], None]) -> None:
        self._mailbox = mailbox
        self._cancel = cancel

    @property
    def id(self) -> str:
        return self._mailbox.id

    @property
    def finish(self) -> Finish | None:
        """How it ended, as soon as that is known, whether or not it has been read."""
        return self._mailbox.finish

    @property
    def pending(self) -> bool:
        """Whether the next output is there already."""
        return self._mailbox.pending

    def cancel(self) -> None:
        """Stop the work. Safe to call at any time and again. The outputs that follow end
        with finish reason "cancelled" and the final counts, unless it had ended otherwise."""
        if self._mailbox.finish is None:
            self._cancel(self._mailbox.id)

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Output:
        output = await self._mailbox.get()
        if output is None:
            raise StopAsyncIteration
        return output
