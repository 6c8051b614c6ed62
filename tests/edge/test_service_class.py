from __future__ import annotations

import pytest

from headrace.access.tenant import ServiceClass
from headrace.api.openai.service_tier import ServiceTier
from headrace.edge.service_class import served_class, tier_of


@pytest.mark.parametrize(
    ("asked", "best", "served", "answered"),
    [
        ("auto", "interactive", "interactive", "priority"),
        ("auto", "default", "default", "default"),
        ("auto", "batch", "batch", "flex"),
        ("priority", "interactive", "interactive", "priority"),
        ("default", "interactive", "default", "default"),
        ("flex", "interactive", "batch", "flex"),
        ("batch", "default", "batch", "flex"),
        ("priority", "default", "default", "default"),
        ("default", "batch", "batch", "flex"),
    ],
)
def test_a_tenant_gets_what_it_asks_for_up_to_its_own_class(
    asked: ServiceTier, best: ServiceClass, served: ServiceClass, answered: str
) -> None:
    assert served_class(asked, best) == served
    assert tier_of(served) == answered
