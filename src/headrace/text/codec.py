"""What a tokenizer is made of, whichever file it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tokenizers

from headrace.text.controls import Control
from headrace.text.infill import Infill

# Control tokens that end a turn in the model families we know, whatever the file declares.
TURN_ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)


class TokenizerError(ValueError):
    """A tokenizer that cannot be built; the sentence names the key and the fault."""


@dataclass(frozen=True)
class Codec:
    """Encoders and tables of one vocabulary.

    start encodes plain text at the beginning of a prompt, middle encodes it after a control
    token (often the same object). Neither knows control tokens.
    tokens: by id, as the file writes them; "" where an id has no token.
    piece: id -> the bytes the token stands for, b"" for control tokens.
    controls: text of a control token -> its id and how it is found.
    eos_id: the end the file declares; eos_ids: every id that ends a turn.
    leading_space: encoding puts a space before text, so decoding a whole text takes one away.
    contents: what the fingerprint is taken over, canonical.
    infill: None for a model that does not fill in the middle.
    known_rules: normaliser and pre-tokenizer are of the kinds that `cuts.py` and `fewest.py` are
    right for. composes: the normaliser joins characters, as NFC does.
    """

    start: tokenizers.Tokenizer
    middle: tokenizers.Tokenizer
    tokens: Sequence[str]
    piece: Callable[[int], bytes]
    controls: Mapping[str, Control]
    bos_id: int | None
    eos_id: int | None
    eos_ids: frozenset[int]
    add_bos: bool
    leading_space: bool
    contents: tuple[object, ...]
    infill: Infill | None = None
    known_rules: bool = False
    composes: bool = True
