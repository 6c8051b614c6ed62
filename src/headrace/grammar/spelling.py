"""Texts as tokens that spell them byte for byte."""

from __future__ import annotations

import re

from headrace.text.tokenizer import Tokenizer

_WORD = re.compile(r"\s*\S+|\s+")


class Spelling:
    """Encodes a text into tokens whose bytes are exactly the text's.

    An encoder may normalise: it composes characters (NFC), or it writes U+2581 as a space. A form
    asks for exact text. So a text that the encoder would change is cut into words, words into
    halves, and what is left of them is spelled by tokens of single bytes. A text that the encoder
    keeps has the encoder's own tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._encode = tokenizer.encode_within
        self._piece = tokenizer.piece
        self._bytes: dict[bytes, int] = {}
        for token in range(tokenizer.vocab_size):
            piece = tokenizer.piece(token)
            if len(piece) == 1 and not tokenizer.is_control(token):
                self._bytes.setdefault(piece, token)

    def __call__(self, text: str) -> list[int]:
        """Token ids; none where the vocabulary lacks a byte of the text."""
        return self._spelled(text) or []

    def _spelled(self, text: str) -> list[int] | None:
        canonical = self._encode(text)
        if b"".join(map(self._piece, canonical)) == text.encode():
            return canonical
        parts = _WORD.findall(text)
        if len(parts) == 1:
            half = len(text) // 2
            parts = [text[:half], text[half:]] if half else []
        if not parts:
            found = [self._bytes.get(bytes([byte])) for byte in text.encode()]
            return None if None in found else [token for token in found if token is not None]
        spelled: list[int] = []
        for part in parts:
            ids = self._spelled(part)
            if ids is None:
                return None
            spelled += ids
        return spelled
