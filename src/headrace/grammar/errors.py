"""What is said of a grammar that cannot be followed."""

from __future__ import annotations


class GrammarError(ValueError):
    """A schema, pattern or grammar that is refused, or that became too costly to follow.

    reason: one sentence for the caller. path: where in a schema, as a JSON path
    (`$.properties.k.pattern`); "" where there is no schema.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path
