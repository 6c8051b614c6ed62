"""A few threads on which the work of many owners takes turns."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Hashable
from concurrent.futures import Future, InvalidStateError
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from headrace.turns.queue import FairQueue

T = TypeVar("T")


class Aside(Enum):
    """What work yields before a step that may be long."""

    ASIDE = "aside"


ASIDE = Aside.ASIDE

Steps = Generator[Aside | None, None, T]
"""Work that yields between its steps, each of which takes a bounded time. Between two steps
others may have their turn, or the work may be given up, which closes the generator. ASIDE says
that the next step should not run on an event loop."""


def in_one(work: Callable[[], T]) -> Steps[T]:
    """Work of one step."""
    return work()
    yield


def at_once(steps: Steps[T]) -> T:
    """Do all of the work here and now."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class _Task(Future[T]):
    """Work that was handed in, and its result. One object for both: nothing of it is in a cycle,
    so it goes as soon as whoever asked is done with it."""

    def __init__(self, steps: Steps[T]) -> None:
        super().__init__()
        self.steps = steps

    def advance(self) -> bool:
        """Do one step. Returns whether more is to be done."""
        try:
            next(self.steps)
        except StopIteration as end:
            with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
                self.set_result(end.value)
        except BaseException as fault:
            with contextlib.suppress(InvalidStateError):
                self.set_exception(fault)
            del self  # whose exception holds this frame
        else:
            if not self.cancelled():
                return True
            self.steps.close()
        return False


class FairThreads:
    """Owners take turns step by step, by the processor time that their steps took (`FairQueue`).
    So nobody waits for more than the step that runs, and for a fair part of the rest. With more
    than one thread an owner has all but one of them at most.

    Safe to use from many threads. Threads start when there is work for them.
    """

    def __init__(
        self,
        threads: int,
        name: str,
        *,
        prepare_thread: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """name: of the threads, in lists of threads. prepare_thread: runs first in each of them.
        clock: seconds that the calling thread worked."""
        self._most = threads
        self._name = name
        self._prepare = prepare_thread
        self._clock = clock
        self._queue: FairQueue[_Task[Any]] = FairQueue(max(1, threads - 1))
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, owner: Hashable, steps: Steps[T]) -> Future[T]:
        """Have work done when its turn comes.

        The future can be cancelled until it has a result: work that waits is dropped at once,
        work that runs after its step. Raises RuntimeError after `close`.
        """
        task = _Task(steps)
        with self._changed:
            if self._closed:
                raise RuntimeError("the threads are closed")
            self._queue.put(owner, task)
            if self._idle:
                self._changed.notify()
            elif len(self._threads) < self._most:
                self._start()
        task.add_done_callback(partial(self._drop, owner))
        return task

    def waiting(self, owner: Hashable) -> int:
        """How many pieces of an owner's work wait for a turn."""
        with self._changed:
            return self._queue.waiting(owner)

    def close(self) -> None:
        """End when the steps that run have ended. What waits is never done. Returns at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _start(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _drop(self, owner: Hashable, task: Future[T]) -> None:
        if not isinstance(task, _Task) or not task.cancelled():
            return
        with self._changed:
            waited = self._queue.remove(owner, task)
        if waited:
            task.steps.close()

    def _work(self) -> None:
        self._prepare()
        while True:
            taken = self._next()
            if taken is None:
                return
            self._advance(*taken)
            del taken  # it would live on while the thread is idle

    def _next(self) -> tuple[Hashable, _Task[Any]] | None:
        """Wait for what runs next; None at the end."""
        with self._changed:
            while not self._closed:
                taken = self._queue.take()
                if taken is not None:
                    return taken
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
        return None

    def _advance(self, owner: Hashable, task: _Task[Any]) -> None:
        """Do one step of what was taken, and hand it back."""
        began = self._clock()
        more = task.advance()
        cost = self._clock() - began
        with self._changed:
            if not more:
                self._queue.done(owner, cost)
                del task  # whose exception may hold this frame
                return
            self._queue.again(owner, task, cost)
            if task.cancelled():  # before it could be found in the queue
                self._queue.remove(owner, task)
