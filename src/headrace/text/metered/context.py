"""A render's variables, with its meter."""

from __future__ import annotations

from typing import Any

from jinja2.runtime import Context

from headrace.text.metered.meter import Meter


class MeteredContext(Context):
    """A render's variables and its meter."""

    meter: Meter

    def derived(self, locals: dict[str, Any] | None = None) -> MeteredContext:
        context = super().derived(locals)
        assert isinstance(context, MeteredContext)
        context.meter = self.meter
        return context
