"""Two hundred schemas and the real model: what it says follows them, or was cut."""

from __future__ import annotations

from collections import Counter

import pytest

from documents import Question, judge_all
from headrace.load.client import Server
from schemas import SCHEMAS

from .conftest import Service

STREAMS = 32


async def test_documents_follow_their_schemas(service: Service) -> None:
    """Half of them greedy, half drawn, in one batch."""
    server = Server(url=f"{service.url}/v1", model=service.model, key=service.key)
    questions = [Question(name, float(number % 2)) for number, name in enumerate(SCHEMAS)]
    verdicts = await judge_all(server, questions, tokens=96, streams=STREAMS)
    assert [(v.question, v.fault, v.text) for v in verdicts if v.fault] == []
    ends = Counter(verdict.finish_reason for verdict in verdicts)
    assert ends["stop"] > len(SCHEMAS) // 4, ends
    assert ends["stop"] + ends["length"] == len(SCHEMAS)


@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_documents_with_room_to_end(service: Service, temperature: float) -> None:
    server = Server(url=f"{service.url}/v1", model=service.model, key=service.key)
    questions = [Question(name, temperature, seed=1) for name in SCHEMAS]
    verdicts = await judge_all(server, questions, tokens=512, streams=STREAMS)
    assert [(v.question, v.fault, v.text) for v in verdicts if v.fault] == []
