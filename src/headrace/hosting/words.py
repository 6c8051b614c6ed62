"""A model's side of text, in the process that serves."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.grammar.compiler import Compiler
from headrace.models.model import Model
from headrace.text.prompt import PromptBuilder
from headrace.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Words:
    """Held while the model is in memory and no longer: a large vocabulary is 200 MB."""

    tokenizer: Tokenizer
    prompts: PromptBuilder
    compiler: Compiler

    @classmethod
    def of(cls, model: Model, tool_format: str | None) -> Words:
        tokenizer = Tokenizer.of_checkpoint(model.metadata, model.tokenizer_file)
        prompts = PromptBuilder.for_model(
            tokenizer, model.chat_template, tool_format, model.tool_template
        )
        return cls(tokenizer, prompts, Compiler(tokenizer, model.program.vocab_size))
