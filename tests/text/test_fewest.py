"""The fewest tokens of many texts together, each of which is tokenised by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.text import fewest as fewest_module
from headrace.text.fewest import FewestTokens
from headrace.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_level

TOKENIZERS = [
    Tokenizer.from_gguf(byte_level("aa", "aaaa", "11", "==", "\u0120\u0120", pre=pre))
    for pre in ("gpt-2", "qwen2")
]
BYTES = [bytes([byte]) for byte in range(256)]


@given(
    st.sampled_from(TOKENIZERS),
    st.lists(st.text("a1= \0e\u0301\u00e9\u263a"), max_size=8),
    st.integers(1, 9),
)
def test_texts_together_have_no_fewer_tokens_than_told(
    tokenizer: Tokenizer, texts: list[str], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fewest_module, "BLOCK", block)
        told = tokenizer._fewest.of(texts)
    assert told <= sum(len(tokenizer.encode(text)) for text in texts)


@pytest.mark.parametrize("composes", [False, True])
def test_many_short_texts_count_as_one_long_one(*, composes: bool) -> None:
    fewest = FewestTokens([*BYTES, b"aaaa"], composes=composes)
    assert fewest.of(["a"] * 100_000) == fewest.of(["a" * 100_000]) == 25_000


@pytest.mark.parametrize("composes", [False, True])
def test_many_short_texts_are_counted_in_few_blocks(*, composes: bool) -> None:
    fewest = FewestTokens([*BYTES, b"aaaa"], composes=composes)
    blocks = list(fewest_module._blocks(["a"] * 100_000))
    assert len(blocks) == 2
    assert sum(block.text_ends for block in blocks) == 100_000
    assert fewest.of(["a"] * 100_000, enough=10) < 25_000


def test_counting_ends_when_it_is_enough() -> None:
    read = []

    def texts():  # type: ignore[no-untyped-def]
        for _ in range(100):
            read.append(1)
            yield "ab" * fewest_module.BLOCK

    fewest = FewestTokens(BYTES, composes=False)
    assert fewest.of(texts(), enough=1000) > 1000
    assert len(read) == 1


def test_a_text_cut_before_a_mark_that_joins_its_last_letter_counts_one_letter_less() -> None:
    composing = FewestTokens(BYTES, composes=True)
    text = "e" * fewest_module.BLOCK + "\u0301"
    assert composing.of([text]) == fewest_module.BLOCK - 1
