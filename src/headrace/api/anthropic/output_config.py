"""What the answer is to be like."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headrace.api.openai.response_format import Form

MessagesEffort = Literal["low", "medium", "high", "xhigh", "max"]


class SchemaFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents of a JSON schema."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """effort: for the model's template, and honoured only where that asks for it."""

    effort: MessagesEffort | None = None
    format: SchemaFormat | None = None

    @property
    def form(self) -> Form | None:
        if self.format is None:
            return None
        return Form("schema", self.format.schema, "output_config.format.schema")
