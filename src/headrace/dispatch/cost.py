"""What service costs, in tenths of an uncached prompt token.

Whole numbers, so that what is given back is what was taken. The ratios are those of OpenAI-like
price lists and roughly those of the work: a cached token costs a lookup, a generated one a pass
over all weights, shared with its batch.
"""

from __future__ import annotations

PROMPT = 10
CACHED = 1
OUTPUT = 20


def prompt_cost(prompt: int, cached: int) -> int:
    """Of a prompt of so many tokens, `cached` of which need not be computed."""
    return PROMPT * (prompt - cached) + CACHED * cached
