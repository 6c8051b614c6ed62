from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

import pytest

from headrace.turns.threads import FairThreads, Steps, at_once, in_one

PATIENCE = 60.0


@pytest.fixture
def one() -> Iterator[FairThreads]:
    """One thread, on which each step takes one second of its clock."""
    ticks = count()
    threads = FairThreads(1, "test", clock=lambda: float(next(ticks)))
    yield threads
    threads.close()


class Stop:
    """Work that holds its thread until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.go.wait(PATIENCE)


def held(threads: FairThreads) -> Stop:
    stop = Stop()
    threads.submit("holder", in_one(stop))
    assert stop.begun.wait(PATIENCE)
    return stop


def steps(done: list[str], name: str, number: int) -> Steps[str]:
    for n in range(number):
        done.append(f"{name}{n}")
        yield
    return name


def results(*futures: Future[str]) -> list[str]:
    return [future.result(PATIENCE) for future in futures]


def test_owners_take_turns_step_by_step(one: FairThreads) -> None:
    stop, done = held(one), []  # type: ignore[var-annotated]
    long = one.submit("flood", steps(done, "f", 3))
    more = one.submit("flood", steps(done, "g", 1))
    short = one.submit("other", steps(done, "o", 1))
    stop.go.set()
    assert results(long, more, short) == ["f", "g", "o"]
    assert done == ["f0", "o0", "f1", "f2", "g0"]


def test_cancelled_work_that_waits_is_closed_at_once_and_never_runs(one: FairThreads) -> None:
    stop, done, closed = held(one), [], threading.Event()  # type: ignore[var-annotated]

    def work() -> Steps[str]:
        try:
            yield
            done.append("ran on")
        finally:
            closed.set()
        return ""

    begun = work()
    next(begun)
    future = one.submit("a", begun)
    assert future.cancel()
    assert closed.is_set()
    assert one.waiting("a") == 0
    after = one.submit("a", in_one(lambda: "after"))
    stop.go.set()
    assert after.result(PATIENCE) == "after"
    assert done == []


def test_cancelled_work_that_runs_ends_after_its_step(one: FairThreads) -> None:
    stop, closed = Stop(), threading.Event()

    def work() -> Steps[str]:
        try:
            stop()
            yield
            raise AssertionError("it ran on")
        finally:
            closed.set()

    future = one.submit("a", work())
    assert stop.begun.wait(PATIENCE)
    assert future.cancel()
    stop.go.set()
    assert closed.wait(PATIENCE)
    assert one.submit("a", in_one(lambda: 1)).result(PATIENCE) == 1


def test_an_exception_reaches_who_asked(one: FairThreads) -> None:
    def fail() -> None:
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        one.submit("a", in_one(fail)).result(PATIENCE)
    assert one.submit("a", in_one(lambda: 1)).result(PATIENCE) == 1


def test_one_owner_never_has_all_threads() -> None:
    threads = FairThreads(2, "test")
    first, second = Stop(), Stop()
    threads.submit("flood", in_one(first))
    threads.submit("flood", in_one(second))
    assert first.begun.wait(PATIENCE)
    assert threads.submit("other", in_one(lambda: 1)).result(PATIENCE) == 1
    assert not second.begun.is_set()
    first.go.set()
    assert second.begun.wait(PATIENCE)
    second.go.set()
    threads.close()


def test_closed_threads_take_no_work_and_end(one: FairThreads) -> None:
    assert one.submit("a", in_one(lambda: 1)).result(PATIENCE) == 1
    one.close()
    with pytest.raises(RuntimeError):
        one.submit("a", in_one(lambda: 1))


def test_at_once_does_all_steps() -> None:
    done: list[str] = []
    assert at_once(steps(done, "x", 2)) == "x"
    assert done == ["x0", "x1"]


def test_threads_are_prepared_before_their_first_work() -> None:
    names: list[str] = []
    threads = FairThreads(
        1, "test", prepare_thread=lambda: names.append(threading.current_thread().name)
    )
    work: Callable[[], str] = lambda: threading.current_thread().name  # noqa: E731
    assert threads.submit("a", in_one(work)).result(PATIENCE) == names[0]
    threads.close()


class Result:
    """Something that can be referred to weakly."""


def test_an_idle_thread_keeps_nothing_of_the_last_request_alive(one: FairThreads) -> None:
    owner, wanted = Result(), Result()
    kept = [weakref.ref(owner), weakref.ref(wanted)]
    box = [wanted]
    del wanted
    assert one.submit(owner, in_one(box.pop)).result(PATIENCE) is not None
    del owner
    until = time.monotonic() + PATIENCE
    while any(ref() is not None for ref in kept):
        assert time.monotonic() < until, "still alive"
        time.sleep(0.01)
        gc.collect()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only what is in no cycle goes."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def gone(ref: weakref.ref[Any]) -> None:
    """Wait until it is."""
    until = time.monotonic() + PATIENCE
    while ref() is not None:
        assert time.monotonic() < until, "still alive"
        time.sleep(0.01)


@pytest.mark.usefixtures("no_collector")
def test_a_result_goes_without_the_garbage_collector(one: FairThreads) -> None:
    box = [Result()]
    kept = weakref.ref(box[0])
    assert one.submit("a", in_one(box.pop)).result(PATIENCE) is kept()
    gone(kept)


@pytest.mark.usefixtures("no_collector")
def test_what_failed_work_held_goes_without_the_garbage_collector(one: FairThreads) -> None:
    held = Result()
    kept = weakref.ref(held)

    def fail(held: Result) -> None:
        raise ValueError("no")

    work = partial(fail, held)
    del held
    future = one.submit("a", in_one(work))
    with pytest.raises(ValueError, match="no"):
        future.result(PATIENCE)
    del work, future
    gone(kept)
