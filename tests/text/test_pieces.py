from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.text import pieces
from tests.text.vocabularies import byte_alphabet

ALPHABET = byte_alphabet()


@given(st.binary(max_size=8))
def test_byte_level_tokens_are_the_bytes_they_show(data: bytes) -> None:
    assert pieces.byte_level("".join(ALPHABET[byte] for byte in data)) == data


def test_a_token_that_shows_no_bytes_stands_for_its_text() -> None:
    assert pieces.byte_level("日本") == "日本".encode()
    assert pieces.byte_level("a\xa0b") == "a\xa0b".encode()


def test_sentencepiece_tokens() -> None:
    assert pieces.sentencepiece("▁the") == b" the"
    assert pieces.sentencepiece("<0x0A>") == b"\n"
    assert pieces.sentencepiece("<0xE4>") == b"\xe4"
    assert pieces.sentencepiece("<0x0A>>") == b"<0x0A>>"
