"""Whether new work is let in, as the operator wants it."""

from __future__ import annotations

from headrace.dispatch.errors import Unavailable


class Gate:
    """closed: nothing new is let in; what is inside goes on. inside: requests that are, those on
    their way to be refused among them."""

    def __init__(self) -> None:
        self.closed = False
        self.inside = 0

    def __enter__(self) -> None:
        self.inside += 1

    def __exit__(self, *_: object) -> None:
        self.inside -= 1

    def check(self) -> None:
        """Raises Unavailable where it is closed."""
        if self.closed:
            raise Unavailable("draining", "the service admits nothing new for now", 10.0)
