"""Replay arrivals against a server, each at its time, whatever became of those before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from headrace.load.client import LoadError, Server, Timing, complete
from headrace.load.trace import Arrival


async def replay(
    arrivals: Sequence[Arrival],
    server: Server,
    pace: float,
    *,
    finished: Callable[[], None] = lambda: None,
) -> list[Timing | LoadError]:
    """What became of each request, in the order they arrived. pace: how much faster than in the
    arrivals time passes. `finished` is called after each."""
    start = asyncio.get_running_loop().time()

    async def one(arrival: Arrival) -> Timing | LoadError:
        await asyncio.sleep(start + arrival.at / pace - asyncio.get_running_loop().time())
        try:
            return await complete(server, arrival.request)
        except LoadError as error:
            return error
        finally:
            finished()

    return await asyncio.gather(*map(one, arrivals))
