"""How text is cut into words before byte-pair merging, by the name GGUF files give it.

Pre-tokenizers are held by public vectors or by the original tokenizer in our tests, or are the
original's pattern run by the library it was made for: a wrong cut gives plausible but wrong
ids, so a name we do not know is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import (
    ByteLevel,
    Digits,
    PreTokenizer,
    Punctuation,
    Sequence,
    Split,
)

from headrace.text.codec import TokenizerError

_CJK = "[一-龥ࠀ-一가-퟿]+"

# Letters as DeepSeek's first tokenizer lists them: cased letters, less some scripts.
_CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ"
    "-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹ"
    "ℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)


@dataclass(frozen=True, slots=True)
class PreTokenizerSpec:
    """What a pre-tokenizer's name stands for.

    cut: makes the pre-tokenizer. whole_words: a word that is itself a token is taken without
    merging. adds_bos: whether models of this kind want a BOS when their file doesn't say.
    """

    cut: Callable[[], PreTokenizer]
    normalizer: Callable[[], Normalizer] | None = None
    whole_words: bool = False
    adds_bos: bool = False


def pre_tokenizer(name: str) -> PreTokenizerSpec:
    """The pre-tokenizer of this name; raises TokenizerError naming one that is unknown."""
    spec = _SPECS.get(name)
    if spec is None:
        raise TokenizerError(
            f"tokenizer.ggml.pre is {name!r}, an unknown pre-tokenizer"
            if name
            else "tokenizer.ggml.pre is missing; a 'gpt2' tokenizer cannot be built without it"
        )
    return spec


def _bytes_only() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=False)


def _words() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False)


def _isolated(pattern: str) -> PreTokenizer:
    return Split(Regex(pattern), behavior="isolated")


def _digits_apart() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), _words()])


def _llama3(digits: str = r"\p{N}{1,3}") -> PreTokenizer:
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return Sequence([_isolated(pattern), _bytes_only()])


def _qwen2() -> PreTokenizer:
    return _llama3(digits=r"\p{N}")


def _cased_words(digits: str, suffix: str) -> PreTokenizer:
    """Words that begin anew where lower case is followed by upper case."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    pattern = (
        f"{before}{upper}*{lower}+{suffix}|{before}{upper}+{lower}*{suffix}|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return Sequence([_isolated(pattern), _bytes_only()])


def _tekken() -> PreTokenizer:
    return _cased_words(digits=r"\p{N}", suffix="")


def _gpt4o() -> PreTokenizer:
    return _cased_words(digits=r"\p{N}{1,3}", suffix="(?i:'s|'t|'re|'ve|'m|'ll|'d)?")


def _falcon() -> PreTokenizer:
    return Sequence(
        [
            Punctuation(behavior="contiguous"),
            _words(),
            Digits(individual_digits=False),
            _isolated("[0-9][0-9][0-9]"),
        ]
    )


def _deepseek_llm() -> PreTokenizer:
    return Sequence(
        [
            _isolated(r"[\r\n]"),
            _isolated(rf"\s?[{_CASED}]+"),
            _isolated(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            _isolated(r"(?<!\s)\s+$"),  # `\s+$` takes quadratic time in a run of white space
            _isolated(_CJK),
            Digits(individual_digits=True),
            _bytes_only(),
        ]
    )


def _deepseek_coder() -> PreTokenizer:
    return Sequence(
        [
            _isolated(r"[\r\n]"),
            _isolated(r"\s?\p{L}+"),
            _isolated(r"\s?\p{P}+"),
            _isolated(_CJK),
            Digits(individual_digits=True),
            _bytes_only(),
        ]
    )


_LLAMA3 = PreTokenizerSpec(_llama3, whole_words=True, adds_bos=True)

_SPECS = {
    "gpt-2": PreTokenizerSpec(_words),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "dbrx": PreTokenizerSpec(_llama3),  # Phi 4
    "smaug-bpe": PreTokenizerSpec(_llama3),  # SmolLM 3
    "gpt-4o": PreTokenizerSpec(_gpt4o),  # Phi 4 mini
    "tekken": PreTokenizerSpec(_tekken, whole_words=True, adds_bos=True),  # later Mistrals
    "qwen2": PreTokenizerSpec(_qwen2, normalizer=normalizers.NFC),
    "smollm": PreTokenizerSpec(_digits_apart),
    "starcoder": PreTokenizerSpec(_digits_apart),
    "falcon": PreTokenizerSpec(_falcon),
    "deepseek-llm": PreTokenizerSpec(_deepseek_llm),
    "deepseek-coder": PreTokenizerSpec(_deepseek_coder),
}
