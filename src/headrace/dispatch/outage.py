"""How long it will be until there is a worker again."""

from __future__ import annotations


class Outage:
    """While there is no worker, the next one is expected after the time that the last one took to
    come. One that is late is expected after as long again as it is late."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._took = 0.0

    def note(self, now: float, up: bool) -> None:
        """Whether there is a worker now."""
        if not up:
            self._since = now if self._since is None else self._since
        elif self._since is not None:
            self._took, self._since = now - self._since, None

    def left(self, now: float) -> float:
        """Seconds; 0 while there is a worker."""
        return 0.0 if self._since is None else abs(self._since + self._took - now)
