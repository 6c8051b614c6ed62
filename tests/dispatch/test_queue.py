from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dispatch.queue import FifoQueue, Ticket

from .conftest import request


@given(st.lists(st.one_of(st.just("push"), st.just("pop"), st.integers(0, 20)), max_size=60))
def test_it_is_a_list_from_which_anyone_may_leave(moves: list[str | int]) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        queue, expected, made = FifoQueue(), [], []
        for move in moves:
            if move == "push":
                ticket = Ticket(request(f"r{len(made)}"), loop.create_future())
                made.append(ticket)
                expected.append(ticket)
                queue.push(ticket)
            elif move == "pop" and expected:
                assert queue.pop() is expected.pop(0)
            elif isinstance(move, int) and move < len(made):
                queue.discard(made[move])
                if made[move] in expected:
                    expected.remove(made[move])
            assert len(queue) == len(expected)

    asyncio.run(scenario())


def test_nobody_waits_in_an_empty_queue() -> None:
    with pytest.raises(KeyError):
        FifoQueue().pop()
