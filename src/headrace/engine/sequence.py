"""One generation while it is in the engine."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import Protocol

from headrace.engine.adjust import adjuster_for
from headrace.engine.blocks import BlockPool, BlockTable
from headrace.engine.chain import HashChain
from headrace.engine.constraint import Constraint
from headrace.engine.draws import stream_key
from headrace.engine.output import Prefilled, TokenLogprob
from headrace.engine.request import GenerationRequest
from headrace.text.reasoning import Thinking


class TextStream(Protocol):
    """Turns generated tokens into text that is safe to send (`text.pipeline.TextPipeline`)."""

    @property
    def matched(self) -> str | None:
        """The stop text that was found, once it was."""
        ...

    def feed(self, token_id: int, *, stops: bool = True) -> str:
        """Text that became certain. stops False: stop texts in this token's text are ignored."""
        ...

    def finish(self) -> str:
        """What was still held back."""
        ...

    @property
    def reasoning_tokens(self) -> int:
        """Tokens that were spent on thoughts."""
        ...

    def take_reasoning(self) -> str:
        """Thoughts that became certain since the last call."""
        ...


class TextStreams(Protocol):
    """Makes a TextStream that ends at any of the stop texts, with thoughts set apart. controls:
    control tokens that are text there."""

    def __call__(
        self, stop: Items[str], thinking: Thinking | None, controls: Mapping[int, str]
    ) -> TextStream: ...


class Sequence:
    """Its tokens (prompt, then generated) and how many of them have keys and values.

    There are no phases: a sequence wants all its tokens computed, and when they are, the
    logits of the last one give the next. `computed` falls back to 0 when it is preempted;
    tokens, text and draws stay, so nothing is lost or repeated.

    arrival: its number in order of arrival. furthest: the most tokens that were computed before it
    was preempted, or before the engine was lost that had it. cached_tokens: tokens of the prompt
    that others had computed when it first came to them. told: what was last reported of its prompt.
    mask_seconds: that its last mask took, None before the first; masks_waited: for so many steps
    its next one has been late.
    reserved: it was preempted, and from its return on its table holds all the blocks it can ever
    need. constraint: where it is in the grammar that it follows, if any. forced: so many of its
    last tokens had no alternative and were taken without a step of their own. in_flight: the step
    that runs now reads and writes its blocks. ended: no further token counts. surplus: how many of
    its last tokens were drawn together with the one that ended it, behind it, and don't count.

    prompt_logprobs: those known so far, of the prompt's first tokens in order. `unscored` is how
    many are known or not wanted: the first prompt token whose logprob a step has yet to give.
    """

    __slots__ = (
        "adjuster",
        "arrival",
        "cached_tokens",
        "chain",
        "computed",
        "constraint",
        "draw_key",
        "ended",
        "ending_ids",
        "forced",
        "furthest",
        "in_flight",
        "mask_seconds",
        "masks_waited",
        "prompt_length",
        "prompt_logprobs",
        "request",
        "reserved",
        "surplus",
        "table",
        "text",
        "tokens",
        "told",
    )

    def __init__(
        self,
        request: GenerationRequest,
        pool: BlockPool,
        text: TextStream,
        eos_ids: frozenset[int],
    ) -> None:
        sampling, stopping = request.sampling, request.stopping
        self.request = request
        self.tokens = array("i", request.prompt)
        self.prompt_length = len(request.prompt)
        self.chain = HashChain(self.tokens, request.namespace, request.published)
        self.arrival = 0
        self.computed = 0
        self.told = request.prefilled or Prefilled(0, 0)
        self.furthest = self.told.tokens
        self.cached_tokens = self.told.cached
        self.table = BlockTable(pool, self.most_computed)
        self.text = text
        self.ending_ids = frozenset(stopping.stop_token_ids) | (
            frozenset() if stopping.ignore_eos else eos_ids
        )
        self.draw_key = stream_key(sampling.seed, sampling.choice)
        # Where there is a grammar, whether it leaves another token decides on bans too (`masks`).
        banned_for = stopping.min_tokens if request.grammar is None else 0
        self.adjuster = adjuster_for(sampling, request.prompt, self.ending_ids, banned_for)
        self.constraint: Constraint | None = None
        self.forced = 0
        self.prompt_logprobs: list[TokenLogprob] = []
        self.reserved = False
        self.in_flight = False
        self.mask_seconds: float | None = None
        self.masks_waited = 0
        self.ended = False
        self.surplus = 0

    @property
    def wanted(self) -> int:
        """Tokens that should have keys and values: all there are."""
        return len(self.tokens)

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.computed

    @property
    def decodes(self) -> bool:
        """Whether all it wants computed is the last token drawn and what was forced behind it."""
        return self.pending <= 1 + self.forced

    @property
    def fast_forwards(self) -> bool:
        """Whether forced tokens are taken as they are: where nobody asks for their logprobs."""
        return self.constraint is not None and self.request.sampling.logprobs is None

    @property
    def reusable(self) -> int:
        """How many of its first tokens may come from a cache: those whose logits nobody wants."""
        if self.unscored < self.prompt_length:
            return max(self.unscored - 1, 0)
        return len(self.tokens) - 1

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_length - self.surplus

    @property
    def prefilled(self) -> int:
        """Tokens of the prompt that were computed or taken from the cache at some time."""
        return min(max(self.furthest, self.computed), self.prompt_length)

    def news(self) -> Prefilled | None:
        """How far the prompt is, if that has changed since it was last asked for."""
        tokens, cached = self.prefilled, self.cached_tokens
        if tokens == self.told.tokens and cached == self.told.cached:
            return None
        self.told = Prefilled(tokens, cached)
        return self.told

    @property
    def most_computed(self) -> int:
        """Most tokens that will ever have keys and values; the last generated one never needs
        them."""
        return self.prompt_length + max(self.request.stopping.max_tokens - 1, 0)

    @property
    def unscored(self) -> int:
        if self.request.sampling.prompt_logprobs and not self.request.generated:
            return len(self.prompt_logprobs)
        return self.prompt_length

    def scored_by(self, count: int) -> range:
        """Prompt tokens that the next `count` tokens' logits score: each scores the one after
        it. Those scored before a preemption are not scored again."""
        last = min(self.computed + count + 1, self.prompt_length)
        return range(max(self.unscored, self.computed + 1), last)

    def replay(self, tokens: Items[int]) -> None:
        """Take tokens that were generated before; their text has left already."""
        min_tokens = self.request.stopping.min_tokens
        for count, token in enumerate(tokens, 1):
            self.append(token)
            self.text.feed(token, stops=count > min_tokens)
        self.text.take_reasoning()

    def append(self, token: int, *, forced: bool = False) -> None:
        """Take a generated token. forced: not drawn."""
        self.tokens.append(token)
        self.forced = self.forced + 1 if forced else 0
        if self.adjuster is not None:
            self.adjuster.add(token)
