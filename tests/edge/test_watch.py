"""Clients that leave, early, late or never."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.edge.watch import PATIENCE, Watch


class Client:
    """Leaves when it is told to; has a body that nobody reads first."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_one_that_leaves_is_noticed() -> None:
    client, noticed = Client(), asyncio.Event()
    watch = Watch(client.receive, noticed.set)
    client.left.set()  # before anybody looks
    async with asyncio.timeout(5):
        await noticed.wait()
    assert watch.gone
    watch.end()


async def test_what_is_over_soon_is_never_watched() -> None:
    client = Client()
    watch = Watch(client.receive, lambda: None)
    watch.end()
    await asyncio.sleep(2 * PATIENCE)
    assert client.asked == 0
    assert not watch.gone


async def test_nothing_is_noticed_after_the_end() -> None:
    client, noticed = Client(), asyncio.Event()
    watch = Watch(client.receive, noticed.set)
    async with asyncio.timeout(5):
        while client.asked < 2:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
    watch.end()
    client.left.set()
    await asyncio.sleep(PATIENCE)
    assert not noticed.is_set()
