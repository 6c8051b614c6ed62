"""What a caller is told when a limit turns a request away."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.access.price import format_money
from headrace.quotas.errors import LimitReached
from headrace.quotas.limit import Draw, Limit, Standing

ON_ITS_WAY = 1000
"""Milliseconds after which it is worth trying again when others, on their way, hold what it takes.
When they end is not known."""


def refusal_of(standings: Sequence[Standing], moment: float) -> LimitReached:
    """By the limit that holds longest. moment: unix seconds."""
    failing = [standing for standing in standings if not standing.fits]
    spent = next((s for s in failing if _is_spent(s)), None)
    if spent is not None:
        return _budget_spent(spent, standings, moment)
    worst = max(failing, key=_wait)
    limit, wait = worst.limit, _wait(worst)
    if limit.kind == "budget":
        message = (
            f"What is left of the budget of {_whose(limit)} is held by requests on their way, and "
            f"this one may cost up to {format_money(worst.amount)}. Please try again later."
        )
    elif limit.kind == "slots":
        message = (
            f"Too many {_words(limit)} of {_whose(limit)}: limit {limit.stated}. "
            "Please try again when one of them has ended."
        )
    else:
        message = (
            f"Rate limit reached for {_whose(limit)} on {_words(limit)}: limit {limit.stated}, "
            f"used {worst.used}, requested {worst.amount}. "
            f"Please try again in {-(-wait // 1000)}s."
        )
    return LimitReached(message, limit=limit, standings=standings, after=wait)


def too_large(draw: Draw, standings: Sequence[Standing]) -> LimitReached:
    """For what a limit will never let pass."""
    limit = draw.limit
    fewer = " Ask for fewer tokens." if "output" in limit.name else ""
    message = (
        f"Request too large for {_whose(limit)} on {_words(limit)}: it needs {draw.amount}, which "
        f"exceeds the limit of {limit.stated}, so that it can never pass.{fewer}"
    )
    return LimitReached(message, limit=limit, standings=standings, after=None, final=True)


def _budget_spent(standing: Standing, standings: Sequence[Standing], moment: float) -> LimitReached:
    limit = standing.limit
    left = max(0, limit.size - (standing.level.used - standing.level.held))
    message = (
        f"Budget of {_whose(limit)} reached: {format_money(left)} of "
        f"{format_money(limit.stated)} are left in this period, and the request may cost up to "
        f"{format_money(standing.amount)}."
    )
    after = max(0, limit.ends - int(moment * 1000))
    return LimitReached(message, limit=limit, standings=standings, after=after, final=True)


def _is_spent(standing: Standing) -> bool:
    """Whether it would not fit even if all that is held came back."""
    limit, amount, level = standing.limit, standing.amount, standing.level
    return limit.kind == "budget" and level.used - level.held + amount > limit.size


def _wait(standing: Standing) -> int:
    return standing.wait if standing.limit.kind == "rate" else ON_ITS_WAY


def _whose(limit: Limit) -> str:
    return f"{limit.subject} {limit.whose}"


def _words(limit: Limit) -> str:
    return limit.name.replace("_", " ")
