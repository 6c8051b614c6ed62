"""What can be wrong with the database."""


class StoreError(Exception):
    """The database cannot be used as it is; the message says why, without a password."""


class DatabaseUnavailable(StoreError):
    """The database is locked, full, down or out of reach; the same may work later."""


class TooManyReports(StoreError):
    """So many reports of one caller wait that no more are taken."""


class ReportTooLong(StoreError):
    """A report took longer than it may; a smaller one may work."""


def reason(error: Exception) -> str:
    """What the driver says, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__
