"""Reservations of one edge that are on their way, and leases that are due."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.quotas.limit import Draw


@dataclass(slots=True)
class Live:
    """A reservation on its way. shared: whether the shared counters know of it."""

    account: str
    draws: Sequence[Draw]
    shared: bool


class Underway:
    """Reservations by their ids and by their accounts. A lease belongs to an account that has some.

    Every call costs the same however many there are, but for `hurry_all`.

    renew_after: seconds after which a lease is due. clock: seconds that never step back.
    """

    def __init__(self, renew_after: float, clock: Callable[[], float]) -> None:
        self._renew_after = renew_after
        self._clock = clock
        self._live: dict[str, Live] = {}
        self._accounts: dict[str, dict[str, Live]] = {}
        self._renewed: OrderedDict[str, float] = OrderedDict()  # the oldest first

    def __contains__(self, id: object) -> bool:
        return id in self._live

    def add(self, id: str, live: Live) -> None:
        """A reservation in the shared counters has renewed the lease there. If they do not know of
        the reservation, the lease is due now."""
        self._live[id] = live
        self._accounts.setdefault(live.account, {})[id] = live
        if live.shared:
            self.renewed(live.account)
        else:
            self._renewed[live.account] = -math.inf
            self._renewed.move_to_end(live.account, last=False)

    def pop(self, id: str) -> Live | None:
        live = self._live.pop(id, None)
        if live is not None:
            own = self._accounts[live.account]
            del own[id]
            if not own:
                del self._accounts[live.account]
                self._renewed.pop(live.account, None)
        return live

    def of(self, account: str) -> Mapping[str, Live]:
        """Those of an account, as they are now."""
        return dict(self._accounts.get(account, {}))

    def renewed(self, account: str) -> None:
        """Its lease begins anew."""
        if account in self._accounts:
            self._renewed[account] = self._clock()
            self._renewed.move_to_end(account)

    def hurry_all(self) -> None:
        """All leases are due now."""
        self._renewed = OrderedDict.fromkeys(self._renewed, -math.inf)

    def due(self, most: int) -> Sequence[str]:
        """Accounts whose leases are due, the oldest first."""
        limit = self._clock() - self._renew_after
        found: list[str] = []
        for account, renewed in self._renewed.items():
            if renewed > limit or len(found) == most:
                break
            found.append(account)
        return found
