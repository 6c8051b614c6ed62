"""What can be wrong with the books."""

from headrace.store.errors import StoreError


class UnknownCharge(StoreError):
    """A charge was closed that never was opened."""
