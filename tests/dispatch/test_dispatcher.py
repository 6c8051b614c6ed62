from __future__ import annotations

import asyncio
import random
import time
from array import array
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.dispatch.dispatcher import Dispatcher
from headrace.dispatch.errors import Overloaded, Refused, Unavailable
from headrace.dispatch.generation import Generation
from headrace.dispatch.policy import usual_policies
from headrace.dispatch.siblings import Siblings
from headrace.dispatch.terms import Terms
from headrace.engine.output import FinishReason, Output
from headrace.fleet.errors import WorkerUnavailable

from .conftest import HandSupervisor, request

Placing = asyncio.Task[Generation]


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def place_all(dispatcher: Dispatcher, *names: str) -> list[Placing]:
    tasks = [asyncio.create_task(dispatcher.place(request(name))) for name in names]
    await settle()
    return tasks


async def read(generation: Generation) -> list[Output]:
    return [output async for output in generation]


async def test_a_free_place_is_given_at_once(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    generation = await dispatcher.place(request("a"))
    assert worker.submitted == ["a"]
    assert generation.id == "a"
    worker.say("a", 1, 2)
    worker.finish("a")
    said, output = await read(generation)
    assert (said.text, said.tokens) == ("1 2 ", [1, 2])
    assert output.finish is not None
    assert generation.finish == output.finish


async def test_the_rest_waits_in_order_of_arrival(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c", "d")
    assert worker.submitted == ["a", "b"]
    status = dispatcher.status()
    assert (status.running, status.queued) == (2, 2)
    worker.finish("b")
    await settle()
    assert worker.submitted == ["a", "b", "c"]
    worker.finish("a")
    worker.finish("c")
    await settle()
    assert worker.submitted == ["a", "b", "c", "d"]
    assert all(task.done() for task in tasks)


async def test_a_full_queue_refuses(dispatcher: Dispatcher, worker: HandSupervisor) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c", "d", "e")
    with pytest.raises(Overloaded) as refused:
        await dispatcher.place(request("f"))
    assert refused.value.reason == "queue_full"
    assert 0 < refused.value.retry_after < 60
    worker.finish("a")
    late = await place_all(dispatcher, "g")
    assert dispatcher.status().queued == 3
    for task in tasks + late:
        task.cancel()


async def test_refusals_do_not_come_back_together(dispatcher: Dispatcher) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c", "d", "e")
    delays = set()
    for _ in range(10):
        with pytest.raises(Overloaded) as refused:
            await dispatcher.place(request("f"))
        delays.add(refused.value.retry_after)
    assert len(delays) > 5
    for task in tasks:
        task.cancel()


async def test_who_stops_waiting_leaves_the_queue(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c", "d")
    tasks[2].cancel()
    await settle()
    assert dispatcher.status().queued == 1
    worker.finish("a")
    await settle()
    assert worker.submitted == ["a", "b", "d"]
    assert worker.cancelled == []


async def test_a_place_that_comes_with_the_cancellation_is_given_back(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c")
    worker.finish("a")  # c has its place now, but its task has not run yet
    tasks[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[2]
    assert worker.submitted == ["a", "b", "c"]
    assert worker.cancelled == ["c"]


async def test_a_cancelled_waiter_does_not_take_the_place_of_the_next(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c", "d")
    tasks[2].cancel()
    worker.finish("a")  # before c's task could take its ticket out
    await settle()
    assert worker.submitted == ["a", "b", "d"]


async def test_cancel_is_passed_on_until_the_end(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    generation = await dispatcher.place(request("a"))
    generation.cancel()
    generation.cancel()
    assert set(worker.cancelled) == {"a"}
    worker.finish("a", "cancelled")
    worker.cancelled.clear()
    generation.cancel()
    assert worker.cancelled == []
    (output,) = await read(generation)
    assert output.finish is not None
    assert output.finish.reason == "cancelled"


async def test_a_dead_worker_ends_what_ran_and_keeps_who_waits(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c")
    worker.down("the engine is gone")
    (output,) = await read(await tasks[0])
    assert output.finish is not None
    assert output.finish.error == "the engine is gone"
    assert dispatcher.status().queued == 1
    worker.up(2)
    assert (await tasks[2]).id == "c"


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Timed:
    """A dispatcher on a clock of the test's own. Its worker took 20 s to come."""

    def __init__(self, worker: HandSupervisor) -> None:
        self.clock = HandClock()
        self.worker = worker
        self.dispatcher = Dispatcher(
            worker,  # type: ignore[arg-type]
            usual_policies(100),
            clock=self.clock,
            wall=self.clock,
            dice=random.Random(1),
        )
        self.dispatcher._advance()
        self.clock.now += 20
        worker.up(2)

    async def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.dispatcher._advance()
        await settle()


async def test_an_outage_of_20_seconds_fails_nobody_who_may_wait_60(worker: HandSupervisor) -> None:
    timed = Timed(worker)
    tasks = await place_all(timed.dispatcher, "a", "b", "c")
    worker.down()
    tasks += await place_all(timed.dispatcher, "d")
    await timed.later(19)
    assert timed.dispatcher.status().queued == 2
    worker.up(2)
    assert [(await task).id for task in tasks] == ["a", "b", "c", "d"]


async def test_who_may_wait_less_than_an_outage_takes_gets_503_at_once(
    worker: HandSupervisor,
) -> None:
    timed = Timed(worker)
    worker.down()
    await timed.later(2)
    interactive = Terms(service_class="interactive")
    for terms in (interactive, Terms(deadline=130)):
        with pytest.raises(Unavailable, match="no engine is running") as refused:
            timed.dispatcher.check(terms)
        assert refused.value.reason == "no_worker"
        assert 18 < refused.value.retry_after < 22, "what is left of the load, and a jitter"
    with pytest.raises(Unavailable):
        await timed.dispatcher.place(request("a"), interactive)
    timed.dispatcher.check(Terms())
    await timed.later(15)  # 3 s are left
    timed.dispatcher.check(interactive)


async def test_a_worker_that_does_not_come_is_waited_for_until_the_deadline(
    worker: HandSupervisor,
) -> None:
    timed = Timed(worker)
    worker.down()
    (waiting,) = await place_all(timed.dispatcher, "a")
    await timed.later(59)
    assert not waiting.done()
    await timed.later(2)
    with pytest.raises(Unavailable) as refused:
        await waiting
    assert refused.value.reason == "no_worker"
    assert timed.dispatcher.status().sheds == {("default", "no_worker"): 1}
    await timed.later(40)  # it is 81 s late, so it is expected in 81 more
    with pytest.raises(Unavailable):
        timed.dispatcher.check(Terms())
    worker.up(1)
    assert (await timed.dispatcher.place(request("b"))).id == "b"


async def test_an_answer_of_which_a_part_has_begun_outlives_any_outage_and_deadline(
    worker: HandSupervisor,
) -> None:
    timed = Timed(worker)
    siblings = Siblings()
    terms = Terms(siblings=siblings, deadline=130)
    parts = [asyncio.create_task(timed.dispatcher.place(request(name), terms)) for name in "abcd"]
    other = (await place_all(timed.dispatcher, "e"))[0]
    assert worker.submitted == ["a", "b"]
    worker.down()
    await timed.later(300)
    assert [part.done() for part in parts] == [True, True, False, False]
    with pytest.raises(Unavailable):
        await other
    fifth = asyncio.create_task(timed.dispatcher.place(request("f"), terms))
    await settle()
    worker.up(3)
    await settle()
    assert worker.submitted == ["a", "b", "c", "d", "f"]
    assert all(part.done() for part in parts)
    await fifth


async def test_draining_lets_an_answer_that_has_begun_get_its_other_parts(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    terms = Terms(siblings=Siblings())
    parts = [asyncio.create_task(dispatcher.place(request(name), terms)) for name in "abc"]
    await settle()
    stopping = asyncio.create_task(dispatcher.stop(grace=60))
    await settle()
    worker.finish("a")
    await settle()
    assert (await parts[2]).id == "c"
    worker.finish("b")
    await settle()
    assert not worker.stopped
    worker.finish("c")
    await stopping
    assert worker.stopped


async def test_prompts_that_are_given_up_do_not_count_as_computed(worker: HandSupervisor) -> None:
    """Opening and cancelling 8,000-token prompts took the rate from 1,000 to 268,000 a second."""
    timed = Timed(worker)
    arbiter = timed.dispatcher._arbiter

    async def prompt(number: int, reason: FinishReason, seconds: float) -> None:
        made = replace(request(f"r{number}"), prompt=array("i", [number] * 8000))
        await timed.dispatcher.place(made)
        await timed.later(seconds)
        tokens = 0 if reason == "cancelled" else 1
        worker.finish(made.id, reason, tokens)
        await settle()

    for number in range(3):
        await prompt(number, "stop", 8)
    before = arbiter._prefilled.value
    assert before == pytest.approx(1000, rel=0.1)
    served = arbiter._served[False].value
    for number in range(100, 200):
        await prompt(number, "cancelled", 0.03)
    assert arbiter._prefilled.value == before
    assert arbiter._served[False].value == served


async def test_who_waits_past_its_deadline_is_turned_away_on_time(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    """TM-01: with an error of its own, and nothing is left of it."""
    await place_all(dispatcher, "a", "b")
    terms = Terms(deadline=time.time() + 0.5)
    with pytest.raises(Overloaded, match="until its deadline") as refused:
        await dispatcher.place(request("c"), terms)
    assert refused.value.reason == "waited_too_long"
    assert dispatcher.status().queued == 0
    assert dispatcher.status().sheds == {("default", "waited_too_long"): 1}
    worker.finish("a")
    await settle()
    assert worker.submitted == ["a", "b"]


async def test_it_is_cheap_to_ask_first(dispatcher: Dispatcher) -> None:
    dispatcher.check(Terms())
    with pytest.raises(Overloaded):  # late by itself, though nobody waits
        dispatcher.check(Terms(deadline=time.time() - 1))
    assert dispatcher.status().sheds == {("default", "would_be_late"): 1}
    tasks = await place_all(dispatcher, "a", "b", "c", "d", "e")
    with pytest.raises(Overloaded) as refused:
        dispatcher.check(Terms())
    assert refused.value.reason == "queue_full"
    dispatcher.check(Terms(tenant=UUID(int=1)))  # a modest one has room
    assert dispatcher.status().sheds[("default", "queue_full")] == 1
    dispatcher.drain()
    with pytest.raises(Unavailable):
        dispatcher.check(Terms())
    for task in tasks:
        task.cancel()


async def test_the_engine_is_told_of_class_and_lane(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    await dispatcher.place(request("a"), Terms(service_class="interactive"))
    await dispatcher.place(request("b"), Terms(service_class="batch", long=True))
    assert [(r.priority, r.long) for r in worker.requests] == [(2, False), (0, True)]


async def test_a_place_is_handed_on_when_prompts_are_through() -> None:
    """The first token of one lets the next begin, without anything having ended."""
    worker = HandSupervisor()
    dispatcher = Dispatcher(worker)  # type: ignore[arg-type]
    dispatcher._resize = lambda: dispatcher._arbiter.resize(9, None, ahead=1)  # type: ignore[method-assign]
    await dispatcher.start()
    await place_all(dispatcher, "a", "b")
    assert worker.submitted == ["a"]
    worker.say("a", 1)
    await settle()
    assert worker.submitted == ["a", "b"]
    await dispatcher.stop(grace=0)


async def test_status_tells_of_tenants_and_lanes(dispatcher: Dispatcher) -> None:
    tenant = UUID(int=5)
    await dispatcher.place(request("a"), Terms(tenant=tenant, long=True))
    status = dispatcher.status()
    assert (status.places, status.long_running, status.long_places) == (2, 1, 1)
    ((told),) = status.tenants
    assert (told.tenant, told.queued, told.running, told.oldest) == (tenant, 0, 1, 0.0)


async def test_ten_thousand_waiters_that_vanish_leave_nothing(worker: HandSupervisor) -> None:
    dispatcher = Dispatcher(worker, usual_policies(20_000))  # type: ignore[arg-type]
    await dispatcher.start()
    tasks = await place_all(dispatcher, *(f"r{n}" for n in range(10_000)))
    random.shuffle(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await settle()
    assert dispatcher.status().queued == 0
    assert len(worker.submitted) == 2
    for name in worker.submitted:
        worker.finish(name)
    assert dispatcher.status().tenants == ()
    await dispatcher.stop(grace=0)


async def test_an_id_in_use_is_the_callers_fault_alone(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    await dispatcher.place(request("a"))
    (again, waiting) = await place_all(dispatcher, "a", "b")
    with pytest.raises(ValueError, match="live already"):
        await again
    assert (await waiting).id == "b"


async def test_draining_lets_the_running_finish(
    dispatcher: Dispatcher, worker: HandSupervisor
) -> None:
    tasks = await place_all(dispatcher, "a", "b", "c")
    stopping = asyncio.create_task(dispatcher.stop(grace=60))
    await settle()
    with pytest.raises(Unavailable, match="shutting down") as refused:
        await tasks[2]
    assert refused.value.reason == "draining"
    with pytest.raises(Unavailable):
        await dispatcher.place(request("d"))
    assert dispatcher.status().draining
    worker.finish("a")
    await settle()
    assert not worker.stopped
    worker.finish("b")
    await stopping
    assert worker.stopped


async def test_a_grace_period_ends(dispatcher: Dispatcher, worker: HandSupervisor) -> None:
    generation = await dispatcher.place(request("a"))
    await dispatcher.stop(grace=0.01)
    assert worker.stopped
    (output,) = await read(generation)
    assert output.finish is not None
    assert output.finish.reason == "error"


async def test_a_probe_without_a_worker_says_so(dispatcher: Dispatcher) -> None:
    with pytest.raises(WorkerUnavailable):
        await dispatcher.probe(1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 5))
def test_every_request_ends_once_and_places_are_never_exceeded(
    seed: int, places: int, max_queue: int
) -> None:
    dice = random.Random(seed)

    async def one(dispatcher: Dispatcher, name: str) -> list[Output] | None:
        try:
            generation = await dispatcher.place(request(name))
        except Refused:
            return None
        return await read(generation)

    async def scenario() -> None:
        worker = HandSupervisor()
        dispatcher = Dispatcher(worker, usual_policies(max_queue))  # type: ignore[arg-type]
        await dispatcher.start()
        worker.up(places)
        tasks: list[asyncio.Task[list[Output] | None]] = []
        for n in range(60):
            tasks.append(asyncio.create_task(one(dispatcher, f"r{n}")))
            await asyncio.sleep(0)
            for _ in range(dice.randrange(3)):
                if worker.mailboxes:
                    name = dice.choice(sorted(worker.mailboxes))
                    dice.choice([worker.finish, worker.say])(name)
            if dice.random() < 0.2:
                dice.choice(tasks).cancel()
            if dice.random() < 0.1:
                worker.down()
                await asyncio.sleep(0)
                worker.up(places)
            assert worker.live <= places
            assert dispatcher.status().queued <= max_queue + 1
        while not all(task.done() for task in tasks):
            for name in list(worker.mailboxes):
                worker.finish(name)
            await asyncio.sleep(0)
        for task in tasks:
            if not task.cancelled() and (outputs := task.result()) is not None:
                assert [o.finish is not None for o in outputs][:-1] == [False] * (len(outputs) - 1)
                assert outputs[-1].finish is not None
        for name in list(worker.mailboxes):  # whose readers were cancelled
            worker.finish(name)
        await settle()
        assert (worker.live, dispatcher.status().queued) == (0, 0)
        await dispatcher.stop(grace=0)

    asyncio.run(scenario())
