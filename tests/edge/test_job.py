"""All generations of a request, wherever they are when their work is given up."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator

import pytest

from headrace.dispatch.terms import USUAL, Terms
from headrace.edge.job import Job
from headrace.engine.output import Finish, Output
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions


class Running:
    """Says one token, and no more until it is cancelled."""

    pending = False

    def __init__(self) -> None:
        self._cancelled = asyncio.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    async def __aiter__(self) -> AsyncIterator[Output]:
        yield Output(id="", text="a", tokens=[1])
        await self._cancelled.wait()
        finish = Finish(reason="cancelled", prompt_tokens=1, completion_tokens=1)
        yield Output(id="", finish=finish)


class Places:
    """So many; whoever comes later waits for ever."""

    def __init__(self, free: int) -> None:
        self._free = free
        self.asked = 0
        self.terms: list[Terms] = []

    async def place(self, request: GenerationRequest, terms: Terms) -> Running:
        self.asked += 1
        self.terms.append(terms)
        if self.asked > self._free:
            await asyncio.Event().wait()
        return Running()


class Sink:
    def __init__(self) -> None:
        self.heard = asyncio.Event()

    async def placed(self) -> None: ...

    async def deliver(self, index: int, output: Output, *, more: bool) -> None:
        self.heard.set()


def job(choices: int, free: int) -> tuple[Job, Places]:
    places = Places(free)
    requests = [
        GenerationRequest(
            id=str(choice),
            prompt=array("i", [1]),
            sampling=SamplingParams(),
            stopping=StopConditions(max_tokens=9),
        )
        for choice in range(choices)
    ]
    return Job(places, requests, USUAL), places


async def until_asked(places: Places, times: int) -> None:
    while places.asked < times:  # noqa: ASYNC110 - nothing else tells
        await asyncio.sleep(0)


@pytest.mark.parametrize("choices", [1, 3])
async def test_what_waits_is_given_up_and_the_caller_goes_on(choices: int) -> None:
    work, places = job(choices, free=0)

    async def caller() -> int:
        await work.run(Sink())
        await asyncio.sleep(0)  # where a cancellation that was left over would strike
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    task = asyncio.create_task(caller())
    await until_asked(places, choices)
    work.cancel()
    work.cancel()
    async with asyncio.timeout(5):
        assert await task == 0
    assert [choice.running for choice in work.choices] == [None] * choices


@pytest.mark.parametrize("choices", [1, 3])
async def test_whoever_cancels_the_caller_is_obeyed(choices: int) -> None:
    work, places = job(choices, free=0)
    task = asyncio.create_task(work.run(Sink()))
    await until_asked(places, choices)
    work.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_runs_ends_with_its_counts_and_what_waits_without() -> None:
    work, places = job(choices=2, free=1)
    sink = Sink()
    task = asyncio.create_task(work.run(sink))
    await until_asked(places, 2)
    await sink.heard.wait()
    work.cancel()
    async with asyncio.timeout(5):
        await task
    first, second = work.choices
    assert first.finish is not None
    assert (first.completion_tokens, second.finish, second.running) == (1, None, None)


async def test_what_is_given_up_before_it_began_asks_for_no_place() -> None:
    work, places = job(choices=1, free=1)
    work.cancel()
    await work.run(Sink())
    assert places.asked == 0


async def test_choices_are_placed_as_parts_of_one_answer() -> None:
    work, places = job(3, free=0)
    running = asyncio.create_task(work.run(Sink()))
    await until_asked(places, 3)
    assert places.terms[0].siblings is not None
    assert {terms.siblings for terms in places.terms} == {places.terms[0].siblings}
    work.cancel()
    await running
    alone, places = job(1, free=0)
    running = asyncio.create_task(alone.run(Sink()))
    await until_asked(places, 1)
    assert places.terms[0].siblings is None
    alone.cancel()
    await running
