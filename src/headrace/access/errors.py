"""What can be wrong with a key, and with a change to what is known of tenants."""


class InvalidKey(Exception):
    """The key is malformed, unknown, expired or revoked. Callers are not told which: the
    message is for logs, and never quotes the key."""


class AccessError(ValueError):
    """A change to tenants, keys, names or prices cannot be made; the message says why."""


class NotFound(AccessError):
    """What should be shown or changed does not exist."""


class AlreadyExists(AccessError):
    """What should be made exists."""
