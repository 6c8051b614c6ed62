from __future__ import annotations

import json
from pathlib import Path

from headrace.api.anthropic.request import parse_messages_request
from headrace.edge.answer_grammar import answer_grammar
from headrace.grammar.compiler import Compiler
from headrace.models.model import open_model
from headrace.text.prompt import PromptBuilder
from headrace.text.tokenizer import Tokenizer
from tests import agents


def test_the_tools_of_a_coding_agent_are_within_the_limits_of_a_step(coder_path: Path) -> None:
    """Of a real vocabulary: with 24 tools of eight parameters the first step is the dearest."""
    model = open_model(coder_path)
    tokenizer = Tokenizer.from_gguf(model.metadata)
    tools = [agents.tool(number, len(agents.OPTIONS)) for number in range(agents.TOOLS)]
    body = {**agents.request("m", number=1), "tools": tools}
    calls = parse_messages_request(json.dumps(body).encode()).calls
    prompts = PromptBuilder.for_model(tokenizer, model.chat_template)
    grammar = answer_grammar(None, calls, None, prompts)
    assert grammar is not None
    matcher = Compiler(tokenizer, model.program.vocab_size).compile(grammar, tokenizer.eos_ids)
    begun = tokenizer.encode(f'<tool_call>\n{{"name": "{tools[5]["name"]}', special=True)
    assert matcher.allows(begun) == len(begun)
