"""Sizes of models, as callers name them who don't care which model it is."""

from __future__ import annotations

from typing import Literal

Tier = Literal["small", "medium", "large"]
TIERS: tuple[Tier, ...] = ("small", "medium", "large")
"""The cheapest first."""

AUTO = "auto"
"""The name by which the choice is left to the service."""
