"""What can be wrong with a key."""


class InvalidKey(Exception):
    """The key is malformed, unknown, expired or revoked. Callers are not told which: the
    message is for logs, and never quotes the key."""


class AccessError(ValueError):
    """A change to tenants or keys cannot be made; the message says why."""
