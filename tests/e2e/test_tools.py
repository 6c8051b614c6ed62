"""Tasks of the bench whose calls must be calls, whatever the model thinks of them."""

from __future__ import annotations

import pytest

from headrace.load.client import Server
from tool_calls import answer_all
from tools import TASKS

from .conftest import Service

STREAMS = 8


def served(service: Service) -> Server:
    return Server(url=f"{service.url}/v1", model=service.model, key=service.key)


async def test_calls_that_are_required_are_valid(service: Service) -> None:
    """By a model that was never taught to call, with a template that knows of no tools. It goes on
    calling for as long as it may."""
    tasks = TASKS[::9]
    answers = await answer_all(served(service), tasks, "required", tokens=128, streams=STREAMS)
    assert sum(len(answer.message["tool_calls"]) for answer in answers) > 2 * len(tasks)
    assert [(a.task.question, a.fault, a.message) for a in answers if a.fault] == []


async def test_a_model_that_was_taught_to_call_solves_most(coder: Service) -> None:
    tasks = [task for task in TASKS if task.kind != "parallel"][::7]
    answers = await answer_all(served(coder), tasks, "auto", tokens=128, streams=STREAMS)
    wrong = [(a.task.question, a.message) for a in answers if not a.solved]
    assert len(wrong) < len(tasks) / 2, wrong


@pytest.mark.heavy
@pytest.mark.timeout(1800)
async def test_all_calls_that_are_required_are_valid(coder: Service) -> None:
    answers = await answer_all(served(coder), TASKS, "required", tokens=512, streams=STREAMS)
    assert [(a.task.question, a.fault, a.message) for a in answers if a.fault] == []
