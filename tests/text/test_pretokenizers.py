"""How pre-tokenizers cut that no public vectors hold; the others are in the conformance tests."""

from __future__ import annotations

import pytest

from headrace.text.pretokenizers import pre_tokenizer

TEXT = "It's HelloWorld,  12345 ÉtéFOO's\n\n  /x/ 日本"


def cut(name: str, text: str) -> list[str]:
    """The pieces, with spaces and line ends as they were."""
    pieces = pre_tokenizer(name).cut().pre_tokenize_str(text)
    return [text[start:end] for _, (start, end) in pieces]


@pytest.mark.parametrize("name", ["dbrx", "smaug-bpe"])
def test_these_cut_as_llama_3_but_merge_every_word(name: str) -> None:
    assert cut(name, TEXT) == cut("llama-bpe", TEXT)
    assert "123" in cut(name, TEXT)
    assert not pre_tokenizer(name).whole_words
    assert not pre_tokenizer(name).adds_bos


def test_tekken() -> None:
    assert cut("tekken", "It's HelloWorld,  123") == [
        "It", "'s", " Hello", "World", ",", " ", " ", "1", "2", "3",
    ]  # fmt: skip
    assert cut("tekken", "ÉtéFOO's/\n/ 日本") == ["Été", "FOO", "'s", "/\n/", " 日本"]
    assert pre_tokenizer("tekken").adds_bos


def test_gpt_4o() -> None:
    assert cut("gpt-4o", "It's HelloWorld,  12345") == [
        "It's", " Hello", "World", ",", " ", " ", "123", "45",
    ]  # fmt: skip
    assert cut("gpt-4o", "ÉtéFOO'S/\n/ 日本") == ["Été", "FOO'S", "/\n/", " 日本"]
    assert not pre_tokenizer("gpt-4o").adds_bos
