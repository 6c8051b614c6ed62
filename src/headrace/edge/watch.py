"""Notices that a client has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive

PATIENCE = 0.005
"""Seconds before it looks: what is answered sooner needs no watching, and that is worth a task
a request."""


class Watch:
    """Calls `on_gone` once the client is gone, until it is ended."""

    def __init__(self, receive: Receive, on_gone: Callable[[], None]) -> None:
        self._receive = receive
        self._on_gone = on_gone
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._begin)
        self.gone = False

    def end(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._on_gone()
