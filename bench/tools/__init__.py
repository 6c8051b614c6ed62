"""More than a hundred tasks that want functions called, and who scores them."""

from __future__ import annotations

from tools.tasks import TASKS

__all__ = ["TASKS"]
