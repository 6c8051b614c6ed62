from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import pytest

from headrace.edge.body import ClientGone
from headrace.edge.connection import Connection
from headrace.edge.job import ServiceEnds
from headrace.edge.watched import watched


async def test_work_that_ends_gives_its_result_and_is_watched_no_more() -> None:
    connection, work = Connection(), asyncio.get_running_loop().create_future()
    work.set_result(7)
    assert await watched(work, connection) == 7
    connection.lose()
    assert not work.cancelled()


@pytest.mark.parametrize(
    ("event", "fault"), [(Connection.lose, ClientGone), (Connection.stop, ServiceEnds)]
)
@pytest.mark.parametrize("early", [True, False])
async def test_what_ends_the_request_cancels_the_work_and_is_raised(
    event: type, fault: type[Exception], early: bool
) -> None:
    connection, loop = Connection(), asyncio.get_running_loop()
    work: asyncio.Future[None] = loop.create_future()
    if early:
        event(connection)
    else:
        loop.call_soon(event, connection)
    with pytest.raises(fault):
        await watched(work, connection)
    assert work.cancelled()


async def test_who_cancels_the_request_is_obeyed() -> None:
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(watched(work, Connection()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.cancelled()


async def test_what_a_request_held_goes_when_its_client_has_left() -> None:
    class Held:
        """Something that can be referred to weakly."""

    async def request(held: Held) -> None:
        connection = Connection()
        asyncio.get_running_loop().call_soon(connection.lose)
        with contextlib.suppress(ClientGone):
            await watched(asyncio.get_running_loop().create_future(), connection)

    held = Held()
    kept = weakref.ref(held)
    gc.collect()
    gc.disable()
    try:
        await request(held)
        del held
        await asyncio.sleep(0)
        assert kept() is None
    finally:
        gc.enable()
