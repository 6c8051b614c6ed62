"""What a coding agent sends, in two turns, against a real model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents import HEADERS, next_turn, request

from .conftest import Service


@pytest.mark.timeout(600)
def test_the_second_turn_of_an_agent_finds_the_first_ones_prompt_in_the_cache(
    service: Service,
) -> None:
    with service.http() as http:

        def ask(body: Any) -> Any:
            path = "/v1/messages?beta=true"
            response = http.post(path, json=body, headers=HEADERS, timeout=500)
            assert response.status_code == 200, response.text
            return response.json()

        first = request(service.model, number=1, max_tokens=24)
        answer = ask(first)
        usage = answer["usage"]
        prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
        assert prompt > 1000
        again = ask(next_turn(first, answer["content"], number=2))["usage"]
        assert again["cache_read_input_tokens"] >= 0.95 * prompt
