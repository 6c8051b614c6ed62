"""A vocabulary as a GGUF file states it, checked.

Keys and token types are those of the GGUF specification (ggml, docs/gguf.md,
"Tokenizer").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headrace.text.codec import TokenizerError
from headrace.text.infill import INFILL_ROLES, OLD_ROLES

_TOKENS = "tokenizer.ggml.tokens"
_TYPES = "tokenizer.ggml.token_type"
_SCORES = "tokenizer.ggml.scores"
_MERGES = "tokenizer.ggml.merges"
_SPECIAL_IDS = (
    *("bos", "eos", "eot", "eom", "unknown", "seperator", "padding"),
    *INFILL_ROLES,
    *OLD_ROLES,
)


class TokenType(IntEnum):
    """What a token is for, numbered as GGUF numbers it."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """Tokens with what the file says of them; a token's id is its index.

    model: the file's tokenizer model ("gpt2": byte-level BPE, "llama": SentencePiece BPE).
    pre: name of the pre-tokenizer ("" when absent). types and scores are parallel to tokens
    (scores only for "llama"). merges: "left right" in order of rank (only for "gpt2").
    special: role ("bos", "eos", ...) -> id. add_bos, space_prefix: None when not stated.
    """

    model: str
    pre: str
    tokens: list[str]
    types: NDArray[np.uint8]
    scores: NDArray[np.float64]
    merges: list[str]
    special: dict[str, int]
    add_bos: bool | None
    space_prefix: bool | None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object]) -> Vocabulary:
        """Read the `tokenizer.ggml.*` keys.

        Raises TokenizerError if a key is missing, of the wrong type, too short or too long,
        or names an id outside the vocabulary, or if a token occurs twice.
        """
        model = _text(metadata, "tokenizer.ggml.model", required=True)
        if model not in ("gpt2", "llama"):
            raise TokenizerError(
                f"tokenizer.ggml.model is {model!r}; only 'gpt2' and 'llama' are supported"
            )
        tokens = _texts(metadata, _TOKENS)
        _check_distinct(tokens)
        return cls(
            model=model,
            pre=_text(metadata, "tokenizer.ggml.pre"),
            tokens=tokens,
            types=_types(metadata, len(tokens)),
            scores=_scores(metadata, len(tokens)) if model == "llama" else np.empty(0),
            merges=_texts(metadata, _MERGES) if model == "gpt2" else [],
            special=_special_ids(metadata, len(tokens)),
            add_bos=_flag(metadata, "tokenizer.ggml.add_bos_token"),
            space_prefix=_flag(metadata, "tokenizer.ggml.add_space_prefix"),
        )

    def contents(self) -> tuple[object, ...]:
        """Everything in it, in a form that msgpack can write."""
        fields = (self.tokens, self.types.tobytes(), self.scores.tobytes(), self.merges)
        special = sorted(self.special.items())
        return (self.model, self.pre, *fields, special, self.add_bos, self.space_prefix)

    @property
    def infill(self) -> dict[str, int]:
        """Role in filling in the middle (`INFILL_ROLES`) -> id, as the file states it."""
        old = {new: self.special[name] for name, new in OLD_ROLES.items() if name in self.special}
        return old | {role: self.special[role] for role in INFILL_ROLES if role in self.special}

    def ids(self, kind: TokenType) -> list[int]:
        """Ids of the tokens of one type, in order."""
        return np.flatnonzero(self.types == kind).tolist()


def _text(metadata: Mapping[str, object], key: str, *, required: bool = False) -> str:
    value = metadata.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise TokenizerError(f"{key} is {_found(value)}; it must be a string")
    return value


def _flag(metadata: Mapping[str, object], key: str) -> bool | None:
    value = metadata.get(key)
    if value is None or isinstance(value, bool):
        return value
    raise TokenizerError(f"{key} is {_found(value)}; it must be true or false")


def _texts(metadata: Mapping[str, object], key: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list | tuple) or not value or set(map(type, value)) != {str}:
        raise TokenizerError(f"{key} is {_found(value)}; it must be a list of strings")
    return list(value)


def _numbers(
    metadata: Mapping[str, object], key: str, count: int, kinds: str
) -> NDArray[np.generic] | None:
    """Values of a numeric array, None if absent. kinds: the numpy dtype kinds it may have."""
    value = metadata.get(key)
    if value is None:
        return None
    if not isinstance(value, np.ndarray | list | tuple):
        raise TokenizerError(f"{key} is {_found(value)}; it must be a list of numbers")
    try:
        numbers = np.asarray(value)
    except ValueError as error:  # lists of unequal length inside
        raise TokenizerError(f"{key} is not a flat list of numbers") from error
    if numbers.ndim != 1 or numbers.dtype.kind not in kinds:
        raise TokenizerError(f"{key} is {_found(value)}; it must be a list of numbers")
    if len(numbers) != count:
        raise TokenizerError(f"{key} has {len(numbers)} entries for {count} tokens")
    return numbers


def _types(metadata: Mapping[str, object], count: int) -> NDArray[np.uint8]:
    types = _numbers(metadata, _TYPES, count, "iu")
    if types is None:
        return np.full(count, TokenType.NORMAL, np.uint8)
    if len(unknown := np.setdiff1d(types, list(TokenType))):
        raise TokenizerError(f"{_TYPES} holds {unknown[0]}, which is no token type")
    return types.astype(np.uint8)


def _scores(metadata: Mapping[str, object], count: int) -> NDArray[np.float64]:
    scores = _numbers(metadata, _SCORES, count, "iuf")
    if scores is None:
        raise TokenizerError(f"{_SCORES} is missing; a 'llama' tokenizer merges by it")
    if not np.isfinite(values := scores.astype(np.float64)).all():
        raise TokenizerError(f"{_SCORES} holds a value that is not finite")
    return values


def _special_ids(metadata: Mapping[str, object], count: int) -> dict[str, int]:
    special = {}
    for role in _SPECIAL_IDS:
        key = f"tokenizer.ggml.{role}_token_id"
        value = metadata.get(key)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise TokenizerError(f"{key} is {_found(value)}; it must be a token id")
        if not 0 <= value < count:
            raise TokenizerError(f"{key} is {value}, outside the vocabulary of {count} tokens")
        special[role] = value
    return special


def _check_distinct(tokens: list[str]) -> None:
    if len(set(tokens)) == len(tokens):
        return
    seen: set[str] = set()
    for index, token in enumerate(tokens):
        if token in seen:
            raise TokenizerError(f"{_TOKENS} holds {token!r} twice (again at {index})")
        seen.add(token)


def _found(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, str | int | float):
        return repr(value)[:80]
    return f"a {type(value).__name__}" if value else f"an empty {type(value).__name__}"
