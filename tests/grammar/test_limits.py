"""What one token of a grammar may cost is bounded, since a step waits for it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from headrace.grammar import GrammarError, lark
from headrace.grammar.compiler import Compiler
from headrace.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_level

MOST_SECONDS = 0.1
"""Of processor time. Some 5 ms are used, and without the limit half a second."""


def test_an_ambiguous_grammar_is_refused_before_a_token_takes_long() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level("a" * 16))
    compiler = Compiler(tokenizer, tokenizer.vocab_size)
    matcher = compiler.compile(lark('start: e\ne: e e | e e e | "a"'), ())
    pieces = [tokenizer.piece(token) for token in range(tokenizer.vocab_size)]
    token = pieces.index(b"a" * 16)
    row = np.zeros((tokenizer.vocab_size + 31) // 32, np.uint32)
    worst = 0.0
    with pytest.raises(GrammarError, match="Too many items"):
        for _ in range(200):
            begun = time.thread_time()
            try:
                matcher.forced()
                matcher.mask(row)
                matcher.accept(token)
            finally:
                worst = max(worst, time.thread_time() - begun)
    assert worst < MOST_SECONDS
