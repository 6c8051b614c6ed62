"""Fill in the middle: how a model is asked for what stands between two texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


class NoInfill(ValueError):
    """The model has no tokens for filling in the middle."""


@dataclass(frozen=True, slots=True)
class Infill:
    """The tokens that a model was trained to fill in the middle with.

    prefix, suffix: ids that the texts follow. middle: the id that the answer follows, None where
    it follows the text of the second one. suffix_first: the suffix comes before the prefix.
    ends: ids that end the answer, beside those that end a turn.
    """

    prefix: int
    suffix: int
    middle: int | None
    suffix_first: bool
    ends: frozenset[int]

    def prompt(self, prefix: Sequence[int], suffix: Sequence[int]) -> list[int]:
        """The prompt, without a BOS, that asks for what stands between two texts' ids."""
        parts = [[self.prefix, *prefix], [self.suffix, *suffix]]
        if self.suffix_first:
            parts.reverse()
        middle = [] if self.middle is None else [self.middle]
        return [*parts[0], *parts[1], *middle]


@dataclass(frozen=True, slots=True)
class _Family:
    """Texts of tokens. others: those that end an answer."""

    prefix: str
    suffix: str
    middle: str | None
    others: tuple[str, ...] = ()
    suffix_first: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        named = (self.prefix, self.suffix, self.middle, *self.others)
        return tuple(text for text in named if text is not None)


_FAMILIES = (
    # Qwen 2.5 Coder and Qwen 3 Coder; CodeGemma; Granite.
    _Family(
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>"),
    ),
    # StarCoder, StableCode, Refact, Yi Coder, Granite Code.
    _Family(
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        ("<fim_pad>", "<repo_name>", "<file_sep>", "<filename>"),
    ),
    # SantaCoder.
    _Family("<fim-prefix>", "<fim-suffix>", "<fim-middle>", ("<fim-pad>",)),
    # CodeLlama.
    _Family("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", ("\u2581<EOT>",)),
    # DeepSeek Coder: the hole stands where the suffix begins.
    _Family(
        "<\uff5cfim\u2581begin\uff5c>",
        "<\uff5cfim\u2581hole\uff5c>",
        "<\uff5cfim\u2581end\uff5c>",
    ),
    # Codestral, whose answer follows the prefix.
    _Family("[PREFIX]", "[SUFFIX]", None, ("[MIDDLE]",), suffix_first=True),
    # Seed Coder.
    _Family("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True),
)

INFILL_ROLES = ("fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")
"""What a GGUF file names by `tokenizer.ggml.ROLE_token_id`."""

OLD_ROLES = {"prefix": "fim_pre", "suffix": "fim_suf", "middle": "fim_mid"}
"""The names that they had in older files."""


def infill_texts(texts: Iterable[str]) -> frozenset[str]:
    """Those of the texts of a vocabulary that are of the family it has whole, if it has one."""
    family = _family(frozenset(texts))
    return frozenset() if family is None else frozenset(family.texts)


def infill_of(ids: Mapping[str, int], stated: Mapping[str, int]) -> Infill | None:
    """None for a model without such tokens.

    ids: of a vocabulary's control tokens. stated: role of `INFILL_ROLES` -> id, as the file says;
    it counts more than what the tokens are called.
    """
    family = _family(ids.keys())
    named: dict[str, int | None] = {}
    if family is not None:
        named = {
            "fim_pre": ids[family.prefix],
            "fim_suf": ids[family.suffix],
            "fim_mid": None if family.middle is None else ids[family.middle],
        }
    named |= stated
    prefix, suffix, middle = (named.get(role) for role in INFILL_ROLES[:3])
    suffix_first = family is not None and family.suffix_first
    if prefix is None or suffix is None or (middle is None and not suffix_first):
        return None
    others = {ids[text] for text in family.texts if text in ids} if family is not None else set()
    return Infill(
        prefix=prefix,
        suffix=suffix,
        middle=middle,
        suffix_first=suffix_first,
        ends=frozenset({*others, *stated.values(), prefix, suffix}),
    )


def _family(texts: Iterable[str]) -> _Family | None:
    known = frozenset(texts)
    for family in _FAMILIES:
        if known >= {text for text in (family.prefix, family.suffix, family.middle) if text}:
            return family
    return None
