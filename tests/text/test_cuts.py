from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.text import cuts, pretokenizers
from headrace.text.tokenizer import TextTooLong, Tokenizer
from headrace.turns.threads import at_once
from tests.text.vocabularies import byte_level, sentencepiece

WORDS = (
    *("the", "Ġthe", "Ġ1", "12", "123", "99", "ĠĠ", "ĠĠĠĠ", "ĊĊ", "Ċ", "..", "...", "'s", "'re"),
    *("abab", "Ġab", ",Ċ", "==", "====", ");", "Ġ(", "ä¸Ń", "ï¼Į", "ab1"),
)
TEXTS = st.lists(
    st.sampled_from(
        [
            *("the", " the", "ab", "abab", "1", "12", "345", " ", "  ", "\n", "\n\n", "\t", "'s"),
            *(
                "'re",
                ".",
                "...",
                ",",
                "==",
                "(",
                ");",
                "中",
                "文",
                "，",
                "。",
                "é",
                "e\u0301",
                "😀",
            ),
            *(
                "x",
                "Q",
                "²",
                "½",
                "٣",
                "한",
                "\u0301",
                "\u3099",
                "か",
                '"',
                "-",
                "/",
                "_",
                "<b>",
                "▁",
            ),
        ]
    ),
    max_size=60,
).map("".join)
SCORED = {
    piece: -float(rank)
    for rank, piece in enumerate(
        [
            *["▁the", "the", "▁▁", "▁ab", "ab", "aba", "12", "▁1", "..", "==", ",▁", "中文"],
            *"▁thexabQ12345.,=()中文's/-",
        ]
    )
}
VOCABULARIES = {
    **{f"bytes {pre}": byte_level(*WORDS, pre=pre) for pre in pretokenizers._SPECS},
    "whole": byte_level(*WORDS, user_defined=("<b>", "x,"), pre="qwen2"),
    "no words": byte_level(pre="llama3"),
    "spaces": sentencepiece(SCORED, user_defined=("<b>", "xQ")),
    "no space": sentencepiece(SCORED, add_space_prefix=False),
}


@pytest.fixture(params=VOCABULARIES, scope="module")
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.from_gguf(VOCABULARIES[request.param])


@pytest.fixture(autouse=True, scope="module")
def short_parts() -> object:
    """Parts of a few characters, so that short texts are cut everywhere they may be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "PART", 3)
        patch.setattr("headrace.text.tokenizer.PART", 3)
        patch.setattr(cuts, "LONGEST_PART", 10_000)
        yield


@settings(max_examples=200)
@given(text=TEXTS)
def test_parts_have_the_tokens_of_the_whole(tokenizer: Tokenizer, text: str) -> None:
    whole = tokenizer._plain(text, first=False)
    assert list(tokenizer.encode_within(text)) == whole
    parts = list(tokenizer._cuts.parts(text))
    assert [id for part in parts for id in tokenizer._plain(part, first=False)] == whole


@settings(max_examples=100)
@given(text=TEXTS, most=st.integers(0, 40))
def test_a_text_is_refused_exactly_if_it_has_more_tokens(
    tokenizer: Tokenizer, text: str, most: int
) -> None:
    ids = tokenizer.encode(text)
    try:
        assert list(at_once(tokenizer.encoding(text, most=most))) == ids
        assert len(ids) <= most
    except TextTooLong as error:
        assert most < error.at_least <= len(ids)


@settings(max_examples=100)
@given(text=st.one_of(TEXTS, st.text()))
def test_no_text_has_fewer_tokens_than_told(tokenizer: Tokenizer, text: str) -> None:
    seen = text.replace("▁", "")
    assert tokenizer._fewest.of([seen]) <= len(tokenizer.encode(text))


def test_common_texts_are_cut_often(tokenizer: Tokenizer) -> None:
    text = "It was so, and it is so. So be it then, said he; or what do you say, my friend? " * 4
    longest = max(map(len, tokenizer._cuts.parts(text)))
    assert longest <= 30
