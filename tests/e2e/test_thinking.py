"""A model that thinks: the real small one, with a template that shows it how.

Its GGUF is copied, and its chat template in there replaced by one of the same length.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from headrace.models.model import open_model

from .conftest import Service, start, stop

TEMPLATE = """\
{% macro t(r,c) %}<|im_start|>{{r}}
{{c}}<|im_end|>
{% endmacro %}{{t('user','Hi')+t('assistant','<think>
A greeting.
</think>
Hello!')+t('user','What is 1+1?')+t('assistant','<think>
A sum.
</think>
Two.')}}{% for m in messages %}{{t(m.role,m.content)}}{% endfor %}<|im_start|>assistant
<think>
{% if enable_thinking==false %}
</think>
{% endif %}"""
QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def thinker(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("thinker")
    model = folder / "thinker.gguf"
    contents = smollm2_path.read_bytes()
    own = (open_model(smollm2_path).chat_template or "").encode()
    ours = f"{TEMPLATE}{{#{' ' * (len(own) - len(TEMPLATE) - 4)}#}}".encode()
    assert (contents.count(own), len(ours)) == (1, len(own))
    model.write_bytes(contents.replace(own, ours))
    running = start(model, folder)
    yield running
    stop(running)


def ask(service: Service, **fields: Any) -> Any:
    fields = {"messages": QUESTION, "temperature": 0, "max_tokens": 40, **fields}
    return service.client().chat.completions.create(model=service.model, **fields)


def test_thoughts_stand_beside_the_answer_streamed_and_not(thinker: Service) -> None:
    answer = ask(thinker)
    message = answer.choices[0].message
    assert "Paris" in message.content
    assert "think>" not in message.content + message.reasoning_content
    assert len(message.reasoning_content) > 3
    spent = answer.usage.completion_tokens_details.reasoning_tokens
    assert 3 < spent < answer.usage.completion_tokens

    chunks = list(ask(thinker, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    thoughts = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert thoughts == message.reasoning_content
    assert "".join(delta.content or "" for delta in deltas) == message.content
    usage = chunks[-1].usage
    assert usage.completion_tokens_details == answer.usage.completion_tokens_details
    assert usage.prompt_tokens == answer.usage.prompt_tokens  # most of them cached by now


def test_thoughts_can_be_switched_off_and_nothing_else(thinker: Service) -> None:
    quiet = ask(thinker, reasoning_effort="none")
    assert "Paris" in quiet.choices[0].message.content
    assert quiet.usage.completion_tokens_details.reasoning_tokens == 0
    assert quiet == ask(
        thinker, extra_body={"chat_template_kwargs": {"enable_thinking": False}}
    ).model_copy(update={"id": quiet.id, "created": quiet.created})
    with pytest.raises(openai.BadRequestError, match="only none") as refused:
        ask(thinker, reasoning_effort="high")
    assert refused.value.param == "reasoning_effort"


def test_stops_hold_for_the_answer_only(thinker: Service) -> None:
    thoughts = ask(thinker).choices[0].message.reasoning_content
    answer = ask(thinker, stop=[thoughts[:4], "Paris"]).choices[0]
    assert answer.message.reasoning_content == thoughts
    assert "Paris" not in answer.message.content
    assert answer.finish_reason == "stop"


def test_thoughts_have_the_budget_that_anthropics_client_gives_them(thinker: Service) -> None:
    client = anthropic.Anthropic(base_url=thinker.url, api_key=thinker.key, timeout=60)
    asked: Any = {"model": thinker.model, "messages": QUESTION, "max_tokens": 40}
    asked["extra_body"] = {"temperature": 0}
    budget: Any = {"type": "enabled", "budget_tokens": 3}
    answer = client.messages.create(**asked, thinking=budget)
    thought, text = answer.content
    assert (thought.type, text.type) == ("thinking", "text")
    free = client.messages.create(**asked, thinking={"type": "adaptive"}).content[0]
    assert free.type == "thinking"
    assert free.thinking.startswith(thought.thinking)  # type: ignore[union-attr]
    assert len(free.thinking) > len(thought.thinking)  # type: ignore[union-attr]
    with client.messages.stream(**asked, thinking=budget) as stream:
        streamed = stream.get_final_message().content
    assert streamed[0] == thought
    assert streamed[1].text == text.text  # type: ignore[union-attr]
    quiet = client.messages.create(**asked, thinking={"type": "disabled"})
    assert [block.type for block in quiet.content] == ["text"]
