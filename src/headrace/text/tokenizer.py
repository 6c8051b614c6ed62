"""Text to token ids and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import msgspec

from headrace.text.codec import Codec, TokenizerError
from headrace.text.controls import ControlScanner
from headrace.text.gguf import gguf_codec
from headrace.text.huggingface import huggingface_codec

__all__ = ["Known", "Tokenizer", "TokenizerError"]

Known = Mapping[str, list[int]]
"""Texts whose ids are known already."""

NOTHING: Known = MappingProxyType({})

_MARK = "\u263a"  # no vocabulary has a piece with it and other text

SHORT = 512
"""Characters up to which no other thread is let run meanwhile, which takes longer than they do."""


class Tokenizer:
    """A vocabulary that encodes text and knows the exact bytes of its tokens.

    Control tokens are kept out of the encoders' own vocabulary and found by a separate scan,
    so text becomes a control token only where the caller asks for it. Encoding releases the
    GIL and takes time linear in the text. Safe to use from many threads.

    vocab_size: one more than the largest id. bos_id: the token that begins a text, if any;
    add_bos: whether the model wants it. eos_ids: every id that ends a turn. infill: how the
    model fills in the middle, None if it does not. bos_token,
    eos_token: the texts of the declared ones, "" where there is none.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._pieces = _Pieces(codec)
        self._control_ids = frozenset(control.id for control in codec.controls.values())
        self.vocab_size = len(codec.tokens)
        self.bos_id = codec.bos_id
        self.eos_ids = codec.eos_ids
        self.infill = codec.infill
        self.add_bos = codec.add_bos
        self.bos_token = "" if codec.bos_id is None else codec.tokens[codec.bos_id]
        self.eos_token = "" if codec.eos_id is None else codec.tokens[codec.eos_id]

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object]) -> Tokenizer:
        """The tokenizer of a GGUF file, from its key-values.

        Raises TokenizerError naming the key that is missing or faulty.
        """
        return cls(gguf_codec(metadata))

    @classmethod
    def from_file(cls, path: Path) -> Tokenizer:
        """The tokenizer of a Hugging Face `tokenizer.json`.

        Reads `tokenizer_config.json` beside it, if there, for the begin and end tokens. Raises
        TokenizerError naming what is faulty or not supported.
        """
        return cls(huggingface_codec(path))

    @classmethod
    def of_checkpoint(cls, metadata: Mapping[str, object], file: Path | None) -> Tokenizer:
        """From a model's `tokenizer_file` or, where all is in one file, its metadata. Raises
        TokenizerError if it is neither there nor there."""
        return cls.from_gguf(metadata) if file is None else cls.from_file(file)

    def encode(
        self,
        text: str,
        *,
        special: bool = False,
        without: str = "",
        known: Known = NOTHING,
    ) -> list[int]:
        """Token ids of text, without a BOS.

        special: texts of control tokens become control tokens; else they stay plain text.
        without: a character to take out, after control tokens were found and before the rest
        is encoded. known: what `encode_within` makes of texts, to be looked up where one of
        them is all that stands behind a control token. Raises UnicodeEncodeError (a ValueError)
        if text holds lone surrogates.
        """
        ids: list[int] = []
        end = 0
        for start, stop, control in self.controls.scan(text) if special else ():
            ids += self._plain(text[end:start], without, known, first=not ids)
            ids.append(control)
            end = stop
        return ids + self._plain(text[end:], without, known, first=not ids)

    def encode_within(self, text: str) -> list[int]:
        """Token ids of plain text that goes on from other text."""
        return self._plain(text, first=False)

    def encode_onwards(self, text: str) -> list[int]:
        """The same, where the vocabulary puts a space before every text: without that space."""
        if not self._codec.leading_space or self._codec.middle is not self._codec.start:
            return self.encode_within(text)
        mark = self._plain(_MARK, first=True)
        ids = self._plain(_MARK + text, first=True)
        return ids[len(mark) :] if ids[: len(mark)] == mark else self.encode_within(text)

    def _plain(
        self, text: str, without: str = "", known: Known = NOTHING, *, first: bool
    ) -> list[int]:
        """Ids of text that begins a prompt (first) or follows a control token."""
        if not first and (ids := known.get(text)) is not None:
            return ids
        if without:
            text = text.replace(without, "")
        if not text:
            return []
        encoder = self._codec.start if first else self._codec.middle
        try:
            if len(text) <= SHORT:
                return list(encoder.encode(text, add_special_tokens=False).ids)
            (encoding,) = encoder.encode_batch_fast([text], add_special_tokens=False)
            return list(encoding.ids)
        except TypeError:
            text.encode()  # says which surrogate it was
            raise

    def decode(self, ids: Iterable[int]) -> str:
        """Text of a whole sequence; bytes that are not UTF-8 become U+FFFD."""
        text = b"".join(map(self.piece, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self._codec.leading_space else text

    def piece(self, token_id: int) -> bytes:
        """The bytes a token adds to a text: b"" for control tokens and for what is no id."""
        return self._pieces[token_id]

    def token(self, token_id: int) -> str:
        """The token as the vocabulary writes it, "" for what is no id."""
        return self._codec.tokens[token_id] if 0 <= token_id < self.vocab_size else ""

    def is_control(self, token_id: int) -> bool:
        """Whether the token steers the model instead of being text."""
        return token_id in self._control_ids

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that decides how text becomes ids and back, as hex."""
        return hashlib.sha256(msgspec.msgpack.encode(self._codec.contents)).hexdigest()

    @cached_property
    def controls(self) -> ControlScanner:
        """Finds this vocabulary's control tokens in text."""
        return ControlScanner(self._codec.controls)


class _Pieces(dict[int, bytes]):
    """Bytes of tokens, worked out on first use; numbers that are no ids aren't kept."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def __missing__(self, token_id: int) -> bytes:
        if not 0 <= token_id < len(self._codec.tokens):
            return b""
        piece = self[token_id] = self._codec.piece(token_id)
        return piece
