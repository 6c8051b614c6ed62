"""Grammars to matchers over one vocabulary."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from headrace.grammar.budgeted import BudgetedMatcher
from headrace.grammar.errors import GrammarError
from headrace.grammar.footprint import CACHE_BYTES, compiled_bytes, state_bytes
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher, reason
from headrace.grammar.text_bound import Marks, TextBound
from headrace.grammar.vocabulary import vocabulary
from headrace.grammar.watch import Watch
from headrace.text.tokenizer import Tokenizer

# llguidance walks grammars by recursion, some 5 KiB a level. What the front door lets through has
# a few thousand levels at most; the pages are only taken where they are touched.
_STACK_BYTES = 64 << 20
_PROBE_TOKENS = 4

MOST_STATES = 1 / 4
"""Of the bytes for kept grammars, what the states of one may take. One with more is not kept."""

_Made = TypeVar("_Made")


class _Key(NamedTuple):
    """What a compiled grammar is made of."""

    text: str
    ambiguous: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """How many compiled grammars are kept, and about how many bytes they take."""

    grammars: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A matcher at the start of a grammar, and about how many bytes that takes."""

    prototype: LLMatcher
    bytes: int


class Compiler:
    """Compiles grammars for one vocabulary and keeps what it compiled, newest last, within a
    number of bytes. Safe to use from many threads; compiling lets other threads run.

    Answers that follow the same compiled grammar share its states, and fail together once these
    are too many. So a grammar that may come to many states is not kept: it is compiled for each
    answer.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocab_size: int,
        *,
        cache_bytes: int = CACHE_BYTES,
        repetition: bool = True,
    ) -> None:
        """vocab_size: of the model's logits, at least the tokenizer's. repetition: whether answers
        that repeat themselves without end are cut (`watch`). The vocabulary's tables
        (`footprint.py`) are made by `prepare`, or when the first grammar comes."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._cache_bytes = cache_bytes
        self._repetition = repetition
        self._cached_bytes = 0
        self._cache: OrderedDict[_Key, _Compiled] = OrderedDict()
        self._lock = threading.Lock()
        self._build_lock = threading.Lock()
        self._vocabulary: LLTokenizer | None = None

    def prepare(self) -> None:
        """Make the vocabulary's tables: up to three seconds for a large one, during which other
        threads have most of the interpreter's time."""
        self._built()

    def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> Matcher | BudgetedMatcher:
        """A matcher at the start of the grammar.

        ending_ids: ids that end a sequence. Raises GrammarError for what does not compile or
        describes no text.
        """
        key = _Key(grammar.text, grammar.ambiguous)
        prototype = self._cached(key)
        if prototype is None:
            prototype = _with_room(lambda: self._made(key))
            self._keep(key, prototype)
        matcher = Matcher(
            prototype.deep_copy(),
            [*ending_ids],
            self._vocab_size,
            Watch() if self._repetition and not grammar.free else None,
            None if grammar.bound is None else self._bound(grammar.bound),
            failed=lambda: self._forget(key),
        )
        if grammar.budget is None:
            return matcher
        return BudgetedMatcher(matcher, grammar.budget, self._tokenizer)

    @property
    def kept(self) -> Kept:
        with self._lock:
            return Kept(len(self._cache), self._cached_bytes)

    def _bound(self, most: int) -> TextBound:
        spelled = self._built().tokenize_bytes
        return TextBound(self._tokenizer.piece, most, Marks(spelled(b"\\b"), spelled(b"\n")))

    def _cached(self, key: _Key) -> LLMatcher | None:
        with self._lock:
            found = self._cache.get(key)
            if found is None:
                return None
            self._cache.move_to_end(key)
            return found.prototype

    def _made(self, key: _Key) -> LLMatcher:
        vocabulary = self._built()
        try:
            return self._tried(vocabulary, key)
        except GrammarError:
            raise
        except Exception as error:  # whatever llguidance says of a grammar is the caller's fault
            raise GrammarError(f"The grammar does not compile: {reason(str(error))}") from error

    def _tried(self, vocabulary: LLTokenizer, key: _Key) -> LLMatcher:
        limits = _LIMITS_OF_CALLERS if key.ambiguous else _LIMITS
        made = LLMatcher(vocabulary, key.text, log_level=0, limits=limits)
        if made.is_error():
            raise GrammarError(f"The grammar does not compile: {reason(made.get_error())}")
        self._probe(made.deep_copy())
        made.compute_bitmask()  # what it learns of the start, every copy knows
        return made

    def _probe(self, matcher: LLMatcher) -> None:
        """Whether the first steps can be taken, and at a bearable cost."""
        probe = Matcher(matcher, (), self._vocab_size)
        for _ in range(_PROBE_TOKENS):
            if probe.exhausted:
                return
            token = probe.any_token()
            if token is None:
                return
            probe.accept(token)

    def _keep(self, key: _Key, made: LLMatcher) -> None:
        states = state_bytes(key.text)
        if states > self._cache_bytes * MOST_STATES:
            return
        size = compiled_bytes(key.text) + states
        with self._lock:
            if key not in self._cache:
                self._cached_bytes += size
            self._cache[key] = _Compiled(made, size)
            while self._cached_bytes > self._cache_bytes and len(self._cache) > 1:
                _, old = self._cache.popitem(last=False)
                self._cached_bytes -= old.bytes

    def _forget(self, key: _Key) -> None:
        with self._lock:
            old = self._cache.pop(key, None)
            self._cached_bytes -= 0 if old is None else old.bytes

    def _built(self) -> LLTokenizer:
        with self._build_lock:
            if self._vocabulary is None:
                self._vocabulary = vocabulary(self._tokenizer, self._vocab_size)
            return self._vocabulary


def _limits(*, step: int) -> LLParserLimits:
    """What takes longer than a step of the engine would hold up everyone else's. step: Earley items
    that one token may add."""
    return LLParserLimits(
        verbose_errors=False,
        max_items_in_row=3_000,
        max_lexer_states=150_000,  # some 450 bytes each; a bounded string takes nine a character
        initial_lexer_fuel=400_000,
        step_lexer_fuel=250_000,  # some 20 ms; 24 tools of eight parameters take 130,000
        step_max_items=step,
    )


_LIMITS = _limits(step=10_000)
"""An object with 500 optional properties has 2,000 items, and each of them costs little."""

_LIMITS_OF_CALLERS = _limits(step=2_000)
"""In an ambiguous grammar the cost of an item grows with their number: with 10,000 one token took
half a second."""

_stack_lock = threading.Lock()


def _with_room(make: Callable[[], _Made]) -> _Made:
    """Runs it on a stack of its own that is large enough."""
    result: Future[_Made] = Future()

    def run() -> None:
        try:
            result.set_result(make())
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=run, name="grammar")
    with _stack_lock:
        usual = threading.stack_size(_STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)
    return result.result()
