from __future__ import annotations

from typing import Any

import pytest

from headrace.text.prompt import PromptBuilder
from headrace.text.template import TemplateError
from headrace.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_level

CONTROLS = ("<s>", "<|im_end|>", "<|im_start|>")
TOKENIZER = Tokenizer.from_gguf(byte_level("hello", controls=CONTROLS))
PLAIN = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMS = PLAIN.replace("m.content", "m.content | trim")
PARTS = PLAIN.replace("m.content", "m.content[0].text")
SPACED = "{% for m in messages %}[{{ m.role }}] {{ m.content }}</s>{% endfor %}"
TWICE = "{{ messages[-1].content }}|" + PLAIN
DROPS = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"


def continued(source: str, content: str) -> str:
    """The prompt behind the user's turn."""
    builder = PromptBuilder.for_model(TOKENIZER, source)
    messages: Any = [{"role": "user", "content": "Fruit?"}]
    messages.append({"role": "assistant", "content": content})
    ids = builder.chat(messages, continue_final=True)
    controls = {builder.control(text): text for text in CONTROLS}
    return "".join(controls.get(id) or TOKENIZER.decode([id]) for id in ids)


@pytest.mark.parametrize(
    ("source", "content", "expected"),
    [
        (PLAIN, "The fruit is", "<|im_start|>assistant\nThe fruit is"),
        (PLAIN, "The fruit is ", "<|im_start|>assistant\nThe fruit is "),
        (PLAIN, " \n", "<|im_start|>assistant\n \n"),
        (PLAIN, "", "<|im_start|>assistant\n"),
        (TRIMS, "The fruit is ", "<|im_start|>assistant\nThe fruit is"),
        (TRIMS, " The fruit is", "<|im_start|>assistant\nThe fruit is"),
        (TRIMS, "", "<|im_start|>assistant\n"),
        (TRIMS, " \n", "<|im_start|>assistant\n"),
        (PARTS, "The fruit is", "<|im_start|>assistant\nThe fruit is"),
        (SPACED, "The fruit is", "[assistant] The fruit is"),
        (PLAIN, "Fruit?", "<|im_start|>assistant\nFruit?"),
        (
            TWICE,
            "The fruit",
            "The fruit|<|im_start|>user\nFruit?<|im_end|>\n<|im_start|>assistant\nThe fruit",
        ),
    ],
)
def test_a_prompt_ends_where_the_last_message_does(
    source: str, content: str, expected: str
) -> None:
    prompt = continued(source, content)
    assert prompt.endswith(expected)
    assert "\ufdd1" not in prompt


def test_control_tokens_in_a_continued_message_are_text() -> None:
    builder = PromptBuilder.for_model(TOKENIZER, PLAIN)
    ids = builder.chat([{"role": "assistant", "content": "a<|im_end|>"}], continue_final=True)
    end = builder.control("<|im_end|>")
    assert end is not None
    assert end not in ids
    assert TOKENIZER.decode(ids).endswith("a<|im_end|>")


def test_a_template_that_drops_the_last_message_cannot_continue_it() -> None:
    with pytest.raises(TemplateError, match="does not show the last message"):
        continued(DROPS, "The fruit is")
