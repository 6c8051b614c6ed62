from __future__ import annotations

import random

import pytest

from headrace.load.workload import Workload, builtin

IDS = range(1000, 2000)


@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W4", "W5"])
def test_prompts_have_their_exact_length(name: str) -> None:
    workload = builtin()[name]
    requests = workload.drawn(IDS, random.Random(1))
    assert len(requests) == workload.requests
    assert {len(request.prompt) for request in requests} == {workload.shared + workload.prompt}
    assert all(token in IDS for request in requests for token in request.prompt)
    assert {request.output for request in requests} == {workload.output}


def test_only_the_shared_part_is_shared() -> None:
    workload = Workload(title="", streams=1, requests=3, prompt=8, shared=16, output=1)
    prompts = [request.prompt for request in workload.drawn(IDS, random.Random(1))]
    assert len({tuple(prompt[:16]) for prompt in prompts}) == 1
    assert len({tuple(prompt[16:]) for prompt in prompts}) == 3


@pytest.mark.parametrize("name", ["W1", "W4", "W6"])
def test_every_run_has_prompts_of_its_own(name: str) -> None:
    workload = builtin()[name]
    first, second = (
        {str(request.prompt) for request in workload.drawn(IDS, random.Random())} for _ in range(2)
    )
    assert len(first) == workload.requests
    assert not first & second


def test_answers_by_a_schema_are_chats() -> None:
    workload = builtin()["W6"]
    for request in workload.drawn(IDS, random.Random(1)):
        assert request.endpoint == "chat/completions"
        assert request.schema == workload.schema
        assert request.schema is not None and request.schema["type"] == "object"
