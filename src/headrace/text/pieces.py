"""The exact bytes that tokens stand for.

A byte-level vocabulary writes each byte as a printable character (Radford et al., GPT-2);
a SentencePiece vocabulary writes a space as U+2581 and single bytes as `<0xNN>`.
"""

from __future__ import annotations

import re

SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_level_table() -> dict[int, str]:
    """Code point of a byte's printable stand-in -> the byte as a Latin-1 character.

    Bytes that print stand for themselves, the others follow from U+0100 in order. Latin-1
    characters that stand for no byte map beyond Latin-1, so that encoding them fails.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table |= {byte: "\uffff" for byte in hidden if byte >= 0x80}
    table |= {0x100 + index: chr(byte) for index, byte in enumerate(hidden)}
    return table


_BYTE_LEVEL = _byte_level_table()


def byte_level(token: str) -> bytes:
    """Bytes of a byte-level token; one that isn't written so stands for its own text."""
    try:
        return token.translate(_BYTE_LEVEL).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def byte_fallback(token: str) -> bytes | None:
    """The byte that `<0xNN>` stands for, None for any other token."""
    match = _BYTE.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else None


def sentencepiece(token: str) -> bytes:
    """Bytes of a SentencePiece token."""
    single = byte_fallback(token)
    return token.replace(SPACE, " ").encode() if single is None else single
