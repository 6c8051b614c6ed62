"""Fill-in-the-middle with a real code model."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.models.model import open_model
from headrace.ops.backend import Limits
from headrace.ops.cpu import CpuBackend
from headrace.text.prompt import PromptBuilder
from headrace.text.tokenizer import Tokenizer

from .fakes import answer, make_engine, request


@pytest.mark.parametrize(
    ("prefix", "suffix", "expected"),
    [
        ("def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n", "a + b"),
        ("def area(width, height):\n    return ", "\n\nassert area(2, 3) == 6\n", "width * height"),
    ],
)
def test_a_code_model_fills_in_the_middle_and_stops(
    coder_path: Path, prefix: str, suffix: str, expected: str
) -> None:
    model = open_model(coder_path)
    tokenizer = Tokenizer.from_gguf(model.metadata)
    prompts = PromptBuilder.for_model(tokenizer, model.chat_template)
    limits = Limits(tokens=128, sequences=4, blocks=40, threads=2)
    engine = make_engine(
        CpuBackend().load(model.program, model.weights, limits),
        blocks=40,
        context_length=512,
        max_sequences=4,
        max_step_tokens=128,
        vocab_size=model.program.vocab_size,
        tokenizer=tokenizer,
    )
    asked = request(
        "r",
        prompts.infill(prefix, suffix),
        max_tokens=40,
        temperature=0.0,
        stop_token_ids=tuple(prompts.infill_ends),
    )
    answers = answer(engine, asked)
    assert answers.text("r").startswith(expected)
    assert answers.finish("r").reason == "stop"
