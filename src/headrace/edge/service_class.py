"""Which class a request is served in, and what that is called in its answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from headrace.access.tenant import SERVICE_CLASSES, ServiceClass
from headrace.api.openai.service_tier import AnsweredTier

_ASKED: Mapping[str, ServiceClass] = {
    "priority": "interactive",
    "default": "default",
    "flex": "batch",
    "batch": "batch",
    "standard_only": "default",
}
"""OpenAI's words, and Anthropic's."""


_ANSWERED: Mapping[ServiceClass, AnsweredTier] = {
    "interactive": "priority",
    "default": "default",
    "batch": "flex",
}


@lru_cache(maxsize=64)
def served_class(asked: str, best: ServiceClass) -> ServiceClass:
    """The tenant's own, or the lower one that was asked for. Asking for more gets no more, as it
    does at OpenAI's; the answer tells."""
    return max(_ASKED.get(asked, best), best, key=SERVICE_CLASSES.index)


def tier_of(service_class: ServiceClass) -> AnsweredTier:
    return _ANSWERED[service_class]
