from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.turns.queue import FairQueue


def test_owners_take_turns_whoever_came_first() -> None:
    queue: FairQueue[str] = FairQueue(1)
    for n in range(3):
        queue.put("flood", f"f{n}")
    queue.put("other", "o")
    order = []
    while (taken := queue.take()) is not None:
        order.append(taken[1])
        queue.done(taken[0], 1.0)
    assert order == ["f0", "o", "f1", "f2"]


def test_the_owner_whose_tasks_cost_less_goes_more_often() -> None:
    queue: FairQueue[str] = FairQueue(1)
    for n in range(40):
        queue.put("heavy", f"h{n}")
        queue.put("light", f"l{n}")
    counts = {"heavy": 0, "light": 0}
    for _ in range(33):
        owner, _ = queue.take() or ("", "")
        counts[str(owner)] += 1
        queue.done(owner, 10.0 if owner == "heavy" else 1.0)
    assert counts == {"heavy": 3, "light": 30}


def test_a_task_with_more_to_do_goes_on_before_its_owners_others() -> None:
    queue: FairQueue[str] = FairQueue(1)
    queue.put("a", "first")
    queue.put("a", "second")
    assert queue.take() == ("a", "first")
    queue.again("a", "first", 1.0)
    assert queue.take() == ("a", "first")
    queue.done("a", 1.0)
    assert queue.take() == ("a", "second")


def test_an_owner_has_no_more_tasks_running_than_allowed() -> None:
    queue: FairQueue[str] = FairQueue(1)
    queue.put("a", "one")
    queue.put("a", "two")
    assert queue.take() == ("a", "one")
    assert queue.take() is None
    queue.put("b", "three")
    assert queue.take() == ("b", "three")
    queue.done("a", 1.0)
    assert queue.take() == ("a", "two")


def test_owners_with_fewer_tasks_running_go_first() -> None:
    queue: FairQueue[str] = FairQueue(2)
    queue.put("a", "a1")
    queue.put("a", "a2")
    assert queue.take() == ("a", "a1")
    queue.put("b", "b1")
    queue.take()
    queue.done("b", 100.0)
    queue.put("b", "b2")
    assert queue.take() == ("b", "b2")


def test_a_pause_earns_no_credit() -> None:
    queue: FairQueue[str] = FairQueue(1)
    queue.put("rested", "early")
    queue.take()
    queue.done("rested", 1.0)
    for n in range(20):
        queue.put("busy", f"b{n}")
    for _ in range(10):
        queue.take()
        queue.done("busy", 1.0)
    for n in range(10):
        queue.put("rested", f"r{n}")
    owners = []
    for _ in range(6):
        owner, _ = queue.take() or ("", "")
        owners.append(owner)
        queue.done(owner, 1.0)
    assert owners.count("rested") == 3


def test_a_removed_task_never_runs() -> None:
    queue: FairQueue[str] = FairQueue(1)
    queue.put("a", "gone")
    queue.put("a", "stays")
    assert queue.remove("a", "gone")
    assert not queue.remove("a", "gone")
    assert queue.waiting("a") == 1
    assert queue.take() == ("a", "stays")
    assert queue.take() is None


def test_owners_without_tasks_are_forgotten_while_others_work() -> None:
    queue: FairQueue[str] = FairQueue(1)
    queue.put("busy", "b")
    for n in range(1000):
        queue.put(n, f"t{n}")
    for _ in range(1001):
        owner, task = queue.take() or ("", "")
        if owner == "busy":
            queue.again(owner, task, 0.5)
        else:
            queue.done(owner, 0.1)
    for _ in range(3):
        queue.take()
        queue.again("busy", "b", 0.5)
    assert len(queue) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("ptdrg")), max_size=60))
def test_every_task_runs_once_whatever_happens(moves: list[tuple[str, str]]) -> None:
    queue: FairQueue[int] = FairQueue(2)
    waiting: set[tuple[object, int]] = set()
    running: list[tuple[object, int]] = []
    ended: set[tuple[object, int]] = set()
    for number, (owner, move) in enumerate(moves):
        if move == "p":
            queue.put(owner, number)
            waiting.add((owner, number))
        elif move == "t" and (taken := queue.take()) is not None:
            waiting.remove(taken)
            running.append(taken)
        elif move == "d" and running:
            task = running.pop()
            queue.done(task[0], 1.0)
            ended.add(task)
        elif move == "g" and running:
            task = running.pop()
            queue.again(task[0], task[1], 1.0)
            waiting.add(task)
        elif move == "r" and waiting:
            task = min(waiting, key=str)
            assert queue.remove(*task)
            waiting.remove(task)
        for name in "abc":
            assert queue.waiting(name) == sum(1 for held, _ in waiting if held == name)
            assert sum(1 for held, _ in running if held == name) <= 2
    for task in running:
        queue.done(task[0], 1.0)
    while (taken := queue.take()) is not None:
        waiting.remove(taken)
        queue.done(taken[0], 1.0)
    assert not waiting


def test_tasks_that_come_and_go_while_another_runs_leave_nothing_behind() -> None:
    queue: FairQueue[int] = FairQueue(1)
    queue.put("flood", -1)
    queue.put("other", -2)
    queue.take()
    queue.done("flood", 100.0)
    queue.take()
    for number in range(10_000):
        queue.put("flood", number)
        assert queue.remove("flood", number)
    assert len(queue._ready) + len(queue._resting) < 300
