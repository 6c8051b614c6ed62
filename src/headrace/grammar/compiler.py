"""Grammars to matchers over one vocabulary."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from headrace.grammar.errors import GrammarError
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher
from headrace.grammar.vocabulary import vocabulary
from headrace.text.tokenizer import Tokenizer

CACHE_BYTES = 64 << 20


class Compiler:
    """Compiles grammars for one vocabulary and keeps what it compiled, newest first, within a
    number of bytes. Safe to use from many threads; compiling lets other threads run."""

    def __init__(
        self, tokenizer: Tokenizer, vocab_size: int, *, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """vocab_size: of the model's logits, at least the tokenizer's."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._cache_bytes = cache_bytes
        self._cached_bytes = 0
        self._cache: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()
        self._build_lock = threading.Lock()
        self._vocabulary: LLTokenizer | None = None

    def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> Matcher:
        """A matcher at the start of the grammar.

        ending_ids: ids that end a sequence. Raises GrammarError for what does not compile.
        """
        return Matcher(self._prototype(grammar.text).deep_copy(), [*ending_ids], self._vocab_size)

    def _prototype(self, text: str) -> LLMatcher:
        with self._lock:
            if found := self._cache.get(text):
                self._cache.move_to_end(text)
                return found
        made = LLMatcher(self._built(), text, log_level=0, limits=_LIMITS)
        if made.is_error():
            raise GrammarError(_first_line(made.get_error()))
        with self._lock:
            if text not in self._cache:
                self._cache[text] = made
                self._cached_bytes += _size(text)
            while self._cached_bytes > self._cache_bytes and len(self._cache) > 1:
                old, _ = self._cache.popitem(last=False)
                self._cached_bytes -= _size(old)
        return made

    def _built(self) -> LLTokenizer:
        with self._build_lock:
            if self._vocabulary is None:
                self._vocabulary = vocabulary(self._tokenizer, self._vocab_size)
            return self._vocabulary


_LIMITS = LLParserLimits(verbose_errors=False)


def _size(text: str) -> int:
    """About what a compiled grammar takes, in bytes."""
    return 200_000 + 50 * len(text)


def _first_line(error: str) -> str:
    return error.strip().splitlines()[0]
