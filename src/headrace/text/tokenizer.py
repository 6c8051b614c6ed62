"""Text to token ids and back."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

from headrace.text.codec import Codec, TokenizerError
from headrace.text.controls import ControlScanner
from headrace.text.cuts import PART, Cuts, Whole
from headrace.text.fewest import FewestTokens
from headrace.text.gguf import gguf_codec
from headrace.text.huggingface import huggingface_codec
from headrace.text.pieces import SPACE
from headrace.turns.threads import Steps, at_once

__all__ = ["Known", "TextTooLong", "Tokenizer", "TokenizerError"]

Known = Mapping[str, list[int]]
"""Texts whose ids are known already."""

NOTHING: Known = MappingProxyType({})

_MARK = "\u263a"  # no vocabulary has a piece with it and other text

SHORT = 512
"""Characters up to which no other thread is let run meanwhile, which takes longer than they do."""


class TextTooLong(ValueError):
    """A text has more tokens than it may have. at_least: so many; exact: and no more."""

    def __init__(self, at_least: int, *, exact: bool = False) -> None:
        super().__init__(f"the text has {'' if exact else 'at least '}{at_least} tokens")
        self.at_least = at_least
        self.exact = exact


class Tokenizer:
    """A vocabulary that encodes text and knows the exact bytes of its tokens.

    Control tokens are kept out of the encoders' own vocabulary and found by a separate scan,
    so text becomes a control token only where the caller asks for it. Encoding releases the
    GIL and takes time linear in the text. Safe to use from many threads.

    vocab_size: one more than the largest id. bos_id: the token that begins a text, if any;
    add_bos: whether the model wants it. eos_ids: every id that ends a turn. bos_token, eos_token:
    the texts of the declared ones, "" where there is none. infill: how the model fills in the
    middle, None if it does not.
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
        if text holds lone surrogates, and Unbroken for a text of more than LONGEST_PART characters
        that cannot be cut.
        """
        return list(at_once(self.encoding(text, special=special, without=without, known=known)))

    def encoding(
        self,
        text: str,
        *,
        special: bool = False,
        without: str = "",
        known: Known = NOTHING,
        most: int | None = None,
    ) -> Steps[array[int]]:
        """The same ids, worked out in steps of some PART characters. most: raises TextTooLong for
        more ids than that, as soon as it is sure; how many they are is exact if that was known
        within a step more."""
        segments: list[tuple[str, int | None]] = []  # texts and the control tokens behind them
        end = 0
        for start, stop, control in self.controls.scan(text) if special else ():
            segments.append((text[end:start], control))
            end = stop
        segments.append((text[end:], None))
        if most is not None and len(segments) - 1 > most:
            raise TextTooLong(len(segments) - 1)
        if most is not None and len(text) > max(most, PART):
            self._check_fewest((part.replace(without, "") for part, _ in segments), most)
            yield None
        ids: array[int] = array("i")
        size, left = 0, len(text)
        for segment, behind in segments:
            first = not ids
            left -= len(segment)
            if not first and (found := known.get(segment)) is not None:
                ids.extend(found)
            else:
                segment = segment.replace(without, "") if without else segment
                for part in self._cuts.parts(segment) if len(segment) > PART else (segment,):
                    if size + len(part) > PART:
                        yield None
                        size = 0
                    if most is not None and len(ids) > most and left + len(segment) > PART:
                        raise TextTooLong(len(ids))
                    size += len(part)
                    ids.extend(self._plain(part, first=first))
                    first = False
            if behind is not None:
                ids.append(behind)
        if most is not None and len(ids) > most:
            raise TextTooLong(len(ids), exact=True)
        return ids

    def prepare(self) -> None:
        """Make the tables that long texts need: up to a second for a large vocabulary. Else the
        first of them makes it."""
        _ = self._cuts, self._fewest

    def encode_within(self, text: str) -> list[int]:
        """Token ids of plain text that goes on from other text."""
        return self._plain(text, first=False)

    def encoding_onwards(self, text: str, *, most: int | None = None) -> Steps[array[int]]:
        """Ids of plain text that goes on from other text, in steps; where the vocabulary puts a
        space before every text, without that space. Raises as `encoding`."""
        if most is not None and len(text) > max(most, PART):
            self._check_fewest([text], most)
            yield None
        ids: array[int] = array("i")
        for part in self._cuts.parts(text) if len(text) > PART else (text,):
            ids.extend(self._plain(part, first=False) if ids else self._onwards(part))
            if most is not None and len(ids) > most:
                raise TextTooLong(len(ids))
            yield None
        return ids

    def _onwards(self, text: str) -> list[int]:
        if not self._codec.leading_space or self._codec.middle is not self._codec.start:
            return self.encode_within(text)
        mark = self._plain(_MARK, first=True)
        ids = self._plain(_MARK + text, first=True)
        return ids[len(mark) :] if ids[: len(mark)] == mark else self.encode_within(text)

    def _check_fewest(self, texts: Iterable[str], most: int) -> None:
        """Raises TextTooLong where the bytes of the texts tell that they have more tokens."""
        if not self._codec.known_rules:
            return
        # A vocabulary that writes spaces as marks has one byte for a mark, not three.
        fewest = self._fewest.of((text.replace(SPACE, "") for text in texts), most)
        if fewest > most:
            raise TextTooLong(fewest)

    def _plain(self, text: str, *, first: bool) -> list[int]:
        """Ids of text that begins a prompt (first) or follows something else."""
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

    @cached_property
    def _plain_pieces(self) -> list[bytes]:
        return [self._codec.piece(id) for id in range(self.vocab_size)]

    @cached_property
    def _fewest(self) -> FewestTokens:
        return FewestTokens(self._plain_pieces, composes=self._codec.composes)

    @cached_property
    def _cuts(self) -> Cuts | Whole:
        if not self._codec.known_rules:
            return Whole()
        added = self._codec.middle.get_added_tokens_decoder().values()
        return Cuts(
            self._plain_pieces,
            prefix=self._prefix,
            taken_whole=[token.content for token in added],
        )

    @property
    def _prefix(self) -> Literal["", "always", "missing"]:
        """Whether a space is put before text that follows something else."""
        bare, spaced = (
            b"".join(map(self._codec.piece, self._plain(text, first=False))) for text in ("a", " a")
        )
        if bare != b" a":
            return ""
        return "always" if spaced == b"  a" else "missing"

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
