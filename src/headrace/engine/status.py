"""How an engine is."""

from __future__ import annotations

import msgspec


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of the engine. steps grows while there is work; tokens are totals.

    prefilled_tokens: of prompts, computed. hit_tokens: taken over from the prefix cache instead.
    evictions: cached blocks that had to go for others. preemptions: sequences that had to.
    step_budget: tokens that the last step with prompts could have had.
    forced_tokens: generated ones that a grammar left no choice about, taken without a step.
    proposed_tokens: guessed ahead of the model. accepted_tokens: those of them that it drew.
    """

    steps: int
    running: int
    waiting: int
    blocks_total: int
    blocks_free: int
    blocks_cached: int
    preemptions: int
    evictions: int
    step_budget: int
    generated_tokens: int
    forced_tokens: int
    prefilled_tokens: int
    hit_tokens: int
    proposed_tokens: int
    accepted_tokens: int
