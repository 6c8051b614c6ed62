from __future__ import annotations

import pytest

from headrace.dispatch.policy import adjusted, usual_policies


def test_what_is_not_changed_stays() -> None:
    usual = usual_policies(7)
    made = adjusted(usual, {"batch": {"share": 3}})
    assert made["batch"].share == 3
    assert made["batch"].max_queue == 7
    assert made["default"] == usual["default"]


def test_floors_leave_something() -> None:
    with pytest.raises(ValueError, match="floors"):
        adjusted(usual_policies(7), {"interactive": {"floor": 0.5}, "default": {"floor": 0.5}})
