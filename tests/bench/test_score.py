from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.grammar import json_schema
from tools import TASKS
from tools.functions import parameters
from tools.score import fault, solved
from tools.tasks import ANY, Either, Task, call, either, may

TASK = Task(
    "parallel",
    "",
    ["book", "pay"],
    [
        call("book", city=either("Bern", "Berne"), nights=2, late=may(True)),
        call("pay", sums=[1, 2]),
    ],
)
BOOK = ("book", {"city": "bern.", "nights": 2})
PAY = ("pay", {"sums": [1.0, 2]})


def message(*calls: tuple[str, Any]) -> dict[str, Any]:
    functions = [{"name": name, "arguments": json.dumps(given)} for name, given in calls]
    return {
        "tool_calls": [
            {"id": str(number), "type": "function", "function": function}
            for number, function in enumerate(functions)
        ]
    }


@pytest.mark.parametrize("calls", [(BOOK, PAY), (PAY, BOOK)])
def test_calls_count_in_any_order(calls: Any) -> None:
    assert solved(TASK, message(*calls))


@pytest.mark.parametrize(
    "calls",
    [
        (),
        (BOOK,),
        (BOOK, PAY, PAY),
        (BOOK, ("pay", {"sums": [2, 1]})),
        (PAY, ("book", {"city": "Basel", "nights": 2})),
        (PAY, ("book", {"city": "Bern", "nights": True})),
        (PAY, ("book", {"city": "Bern"})),
        (PAY, ("book", {"city": "Bern", "nights": 2, "late": False})),
        (PAY, ("book", {"city": "Bern", "nights": 2, "pets": 1})),
        (PAY, ("book", [])),
        (PAY, ("cook", {"city": "Bern", "nights": 2})),
    ],
)
def test_what_does_not_solve_a_task(calls: Any) -> None:
    assert not solved(TASK, message(*calls))


def answer_to(task: Task) -> dict[str, Any]:
    """A right one."""
    calls = []
    for expected in task.expected:
        given = {}
        for name, wanted in expected.arguments.items():
            if not isinstance(wanted, Either):
                given[name] = wanted
            elif not wanted.optional:
                given[name] = wanted.values[0]
        assert ANY not in given.values()
        calls.append((expected.name, given))
    return message(*calls)


def test_every_task_can_be_solved_by_calls_that_are_valid() -> None:
    assert len(TASKS) > 100
    assert len({task.question for task in TASKS}) == len(TASKS)
    for task in TASKS:
        answer = answer_to(task)
        assert solved(task, answer)
        assert fault(task, answer) is None, task


def test_every_function_is_one_that_we_take() -> None:
    for name in {name for task in TASKS for name in task.offered}:
        json_schema(parameters(name))


def test_faults_of_calls() -> None:
    task = next(task for task in TASKS if task.offered == ["get_forecast"])
    good = ("get_forecast", {"city": "Oslo", "days": 1})
    assert fault(task, message(good)) is None
    assert fault(task, {"content": "Sunny."}) == "no call"
    assert fault(task, message(good, good), parallel=False) == "2 calls"
    assert "not offered" in str(fault(task, message(("get_weather", {}))))
    assert "$" not in str(fault(task, message(("get_forecast", {"city": "Oslo", "days": 99}))))
    assert fault(task, message(("get_forecast", {"city": "Oslo"}))) is not None
    broken = message(good)
    broken["tool_calls"][0]["function"]["arguments"] += "}"
    assert "no JSON" in str(fault(task, broken))
