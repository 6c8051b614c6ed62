"""How a request is to be served, in OpenAI's words."""

from __future__ import annotations

from typing import Literal

ServiceTier = Literal["auto", "default", "flex", "priority", "batch"]
"""What may be asked. auto: as usual for whoever asks; batch: another word for flex."""

AnsweredTier = Literal["default", "flex", "priority"]
"""How it was served."""
