"""A vocabulary of bytes, so that a text has one tokenisation, and walks through grammars."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headrace.grammar.compiler import Compiler
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher
from headrace.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_level


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_gguf(byte_level())


@cache
def compiler() -> Compiler:
    return Compiler(tokenizer(), tokenizer().vocab_size)


def matcher(grammar: Grammar) -> Matcher:
    return compiler().compile(grammar, sorted(tokenizer().eos_ids))


def mask(matcher: Matcher, vocab_size: int, after: tuple[int, ...] = ()) -> NDArray[np.uint32]:
    row = np.zeros(-(-vocab_size // 32), np.uint32)
    matcher.mask(row, after)
    return row


def ids(row: NDArray[np.uint32]) -> NDArray[np.intp]:
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))


def allowed(matcher: Matcher, vocab_size: int, after: tuple[int, ...] = ()) -> set[int]:
    return set(ids(mask(matcher, vocab_size, after)).tolist())


def accepts(grammar: Grammar, text: str) -> bool:
    """Whether the text is a whole document, taken token by token."""
    followed = matcher(grammar)
    tokens = tokenizer().encode_within(text)
    if followed.allows(tokens) < len(tokens):
        return False
    for token in tokens:
        followed.accept(token)
    return followed.exhausted or tokenizer().eos_ids <= allowed(followed, tokenizer().vocab_size)


def follow(followed: Matcher, text: str) -> int | None:
    """How many tokens were taken when it was cut, None where it was not."""
    for count, token in enumerate(tokenizer().encode_within(text), 1):
        followed.accept(token)
        if followed.cut:
            return count
    return None


def walk(grammar: Grammar, seed: int, longest: int = 400) -> str | None:
    """A document found by drawing, None where it was cut or did not end in time. Draws the
    characters that bring a document to its end more often than others."""
    draw = random.Random(seed)
    followed, written = matcher(grammar), bytearray()
    for _ in range(longest):
        if followed.exhausted:
            return written.decode()
        tokens = allowed(followed, tokenizer().vocab_size)
        if tokens & tokenizer().eos_ids and draw.random() < 0.5:
            return written.decode()
        pieces = {token: tokenizer().piece(token) for token in tokens - tokenizer().eos_ids}
        closing = [token for token, piece in pieces.items() if piece in (b'"', b"]", b"}", b",")]
        plain = [token for token, piece in pieces.items() if piece[:1].isalnum()]
        choices = closing if closing and draw.random() < 0.4 else plain or closing or list(pieces)
        token = draw.choice(sorted(choices))
        followed.accept(token)
        if followed.cut:
            return None
        written += pieces[token]
    return None
