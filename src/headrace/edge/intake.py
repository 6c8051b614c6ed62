"""How much of the request bodies that came is not planned yet, and who sent it."""

from __future__ import annotations

from collections.abc import Hashable

from headrace.api.openai.errors import ApiError, rate_limited, unavailable

SMALL_BODY = 4096
"""Bytes up to which a body is neither counted nor prepared beside the event loop."""

RETRY_MS = 1000


class Intake:
    """Bounds the bytes of bodies under way: announced or received, and not planned yet.

    One tenant holds at most as much as it leaves free: half of the capacity if it is alone. The
    next one finds the other half free, and holds at most half of that, and so on.
    """

    def __init__(self, capacity: int) -> None:
        """capacity: bytes of all bodies together."""
        self.capacity = capacity
        self.held = 0
        self._by_tenant: dict[Hashable, int] = {}

    def held_by(self, tenant: Hashable) -> int:
        """Bytes that count towards a tenant."""
        return self._by_tenant.get(tenant, 0)

    def add(self, tenant: Hashable, size: int) -> None:
        """Count more bytes. Raises ApiError where they are too many: 429 if the tenant holds
        some itself, else 503."""
        own = self.held_by(tenant)
        if own + size > self.capacity - self.held - size:
            raise self._refusal(own, size)
        self.held += size
        self._by_tenant[tenant] = own + size

    def remove(self, tenant: Hashable, size: int) -> None:
        """Count bytes no longer."""
        self.held -= size
        left = self._by_tenant[tenant] - size
        if left:
            self._by_tenant[tenant] = left
        else:
            del self._by_tenant[tenant]

    def _refusal(self, own: int, size: int) -> ApiError:
        if not own:
            return unavailable(
                "bodies_under_way",
                f"there is no room for a request body of {size} bytes: {self.held} bytes of "
                "others are being read and prepared",
                RETRY_MS / 1000,
            )
        return rate_limited(
            f"Your other requests have {own} bytes of bodies that are being read and prepared. "
            f"There is no room for {size} more. Please send fewer large requests at once.",
            "requests",
            after=RETRY_MS,
            final=False,
        )


class Claim:
    """What one request holds of an intake."""

    __slots__ = ("_intake", "_tenant", "size")

    def __init__(self, intake: Intake, tenant: Hashable) -> None:
        self._intake = intake
        self._tenant = tenant
        self.size = 0

    def grow(self, size: int) -> None:
        """Hold as many bytes as a body of this size counts. Raises ApiError."""
        counted = size if size > SMALL_BODY else 0
        if counted > self.size:
            self._intake.add(self._tenant, counted - self.size)
            self.size = counted

    def release(self) -> None:
        """Hold nothing any more. Safe to call again."""
        if self.size:
            self._intake.remove(self._tenant, self.size)
            self.size = 0
