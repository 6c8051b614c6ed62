"""How limits stand, as answers tell it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.edge.headers import Headers
from headrace.edge.wire import Wire
from headrace.quotas.limit import Standing

_GROUPS = {
    "requests_per_minute": ("requests",),
    "long_requests_per_minute": ("requests",),
    "input_tokens_per_minute": ("tokens", "input-tokens"),
    "long_input_tokens_per_minute": ("tokens", "input-tokens"),
    "output_tokens_per_minute": ("tokens", "output-tokens"),
}


def rate_limit_headers(standings: Sequence[Standing], wire: Wire) -> Headers:
    """Of each group the limit that has least left, whether it is the tenant's or the key's; of
    tokens, input's or output's. None of a group without limits."""
    tightest: dict[str, tuple[int, Standing]] = {}
    for standing in standings:
        remaining = standing.remaining
        for group in _GROUPS.get(standing.limit.name, ()):
            if group not in tightest or remaining < tightest[group][0]:
                tightest[group] = remaining, standing
    headers: Headers = {}
    for group, (remaining, standing) in tightest.items():
        headers.update(wire.limit(group, standing.limit.stated, remaining, standing.reset))
    return headers
