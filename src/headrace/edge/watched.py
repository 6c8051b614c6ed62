"""Work that ends early if its client leaves or the service ends."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from headrace.edge.body import ClientGone
from headrace.edge.connection import Connection
from headrace.edge.job import ServiceEnds

T = TypeVar("T")


async def watched(work: asyncio.Future[T], connection: Connection) -> T:
    """Wait for the result of `work`, and watch the connection meanwhile.

    Raises what the work raises. Cancels the work and raises ClientGone if the client leaves, or
    ServiceEnds if the service ends.
    """
    fault: Exception | None = None

    def end(reason: Exception) -> None:
        nonlocal fault
        fault = fault or reason
        work.cancel()

    connection.watch(lambda: end(ClientGone()), lambda: end(ServiceEnds()))
    try:
        return await work
    except asyncio.CancelledError:
        if fault is None:
            raise
        raise fault from None
    finally:
        connection.unwatch()
        fault = None  # which holds this frame, and the frame all of the request
