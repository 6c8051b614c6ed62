from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.compiler import Compiler
from headrace.grammar.errors import GrammarError
from headrace.grammar.forms import choice, gbnf, json_schema, regex
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher
from headrace.grammar.spelling import Spelling
from headrace.models.gguf import read_gguf
from headrace.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_alphabet, byte_level, sentencepiece

COMPOSED = ("cafe\u0301", "\u2126 5", "A\u030a", "\u212b", "\u1112\u1161\u11ab", "\u0958")
"""Texts that NFC changes."""
SPACES = ("a\u2581b", "\u2581", "a \u2581 b")
"""Texts that SentencePiece writes as others."""


@cache
def composing() -> Tokenizer:
    """Normalises to NFC, as Qwen's does."""
    return Tokenizer.from_gguf(byte_level("caf", "né", pre="qwen2"))


@cache
def spacing() -> Tokenizer:
    return Tokenizer.from_gguf(sentencepiece({"\u2581": -1.0, "a": -2.0, "b": -3.0}))


TOKENIZERS = {"composing": composing, "spacing": spacing}


def test_the_vocabularies_here_do_normalise() -> None:
    def text(tokenizer: Tokenizer, of: str) -> str:
        return b"".join(map(tokenizer.piece, tokenizer.encode_within(of))).decode()

    assert all(text(composing(), given) != given for given in COMPOSED)
    assert all(text(spacing(), given) != given for given in SPACES)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=st.text("ae b\u0301\u2126\u0958\u2581né\n😀", max_size=12))
def test_tokens_spell_the_text_byte_for_byte(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]()
    ids = Spelling(tokenizer)(text)
    assert b"".join(map(tokenizer.piece, ids)) == text.encode()
    assert not any(map(tokenizer.is_control, ids))


@given(text=st.text("caf né\u2581", max_size=12))
def test_a_text_that_the_encoder_keeps_has_its_tokens(text: str) -> None:
    kept = unicodedata.normalize("NFC", text)
    assert Spelling(composing())(kept) == composing().encode_within(kept)


def test_words_beside_a_changed_one_keep_their_tokens() -> None:
    assert Spelling(composing())("caf e\u0301")[0] == composing().encode_within("caf")[0]


def lacking() -> Tokenizer:
    """Has no token for the first byte of U+2126."""
    metadata = byte_level("caf")
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    tokens[tokens.index(byte_alphabet()[0xE2])] = "spare"
    return Tokenizer.from_gguf(metadata)


def test_a_byte_without_a_token_gives_no_tokens() -> None:
    assert Spelling(lacking())("\u2126") == []


def grammars(text: str) -> dict[str, Grammar]:
    """Forms that leave that text alone, or that with a 5 or a 6 behind it."""
    member = {"type": "object", "required": [text], "additionalProperties": False}
    return {
        "forced choice": choice([text]),
        "choice": choice([f"{text}5", f"{text}6"]),
        "pattern": regex(f"{text}[56]"),
        "gbnf": gbnf(f'root ::= "{text}" [56]'),
        "enum": json_schema({"enum": [f"{text}5", f"{text}6"]}),
        "const": json_schema({"const": text}),
        "schema pattern": json_schema({"type": "string", "pattern": f"^{text}[56]$"}),
        "property": json_schema({**member, "properties": {text: {"const": None}}}),
    }


def written(followed: Matcher, tokenizer: Tokenizer) -> str:
    """What the first token that is allowed leads to, each time."""
    out = b""
    while not followed.exhausted and (token := followed.any_token()) is not None:
        followed.accept(token)
        out += tokenizer.piece(token)
    return out.decode()


@pytest.mark.parametrize("kind", grammars("x"))
@pytest.mark.parametrize(
    ("name", "text"),
    [*(("composing", text) for text in COMPOSED), *(("spacing", text) for text in SPACES)],
)
def test_forms_have_the_exact_text(name: str, text: str, kind: str) -> None:
    tokenizer = TOKENIZERS[name]()
    followed = Compiler(tokenizer, tokenizer.vocab_size).compile(grammars(text)[kind], [])
    assert isinstance(followed, Matcher)
    assert text in written(followed, tokenizer)


@pytest.mark.parametrize("vocab", ["qwen2", "llama-spm", "phi-3", "llama-bpe", "deepseek-llm"])
def test_forms_have_the_exact_text_in_vocabularies_of_models(vocab: str, suites: Path) -> None:
    path = suites / "gguf-vocab" / f"ggml-vocab-{vocab}.gguf"
    tokenizer = Tokenizer.from_gguf(read_gguf(path).metadata)
    compiler = Compiler(tokenizer, tokenizer.vocab_size)
    for text in (*COMPOSED, *SPACES):
        for kind, grammar in grammars(text).items():
            followed = compiler.compile(grammar, tokenizer.eos_ids)
            assert isinstance(followed, Matcher)
            assert text in written(followed, tokenizer), kind


@pytest.mark.parametrize("text", ["\x7f", "\0", "\t\r\n", "\u2028", "\ufeff", '"\\/'])
def test_a_choice_may_have_any_character(text: str) -> None:
    followed = Compiler(composing(), composing().vocab_size).compile(choice([text]), [])
    assert isinstance(followed, Matcher)
    assert written(followed, composing()) == text


def test_a_text_that_a_vocabulary_cannot_spell_is_a_grammar_error() -> None:
    tokenizer = lacking()
    with pytest.raises(GrammarError):
        Compiler(tokenizer, tokenizer.vocab_size).compile(choice(["\u2126"]), [])
