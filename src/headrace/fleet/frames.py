"""How messages follow one another in a stream of bytes: each behind its length."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

LENGTH_BYTES = 4
MOST_BYTES = 1 << 30
"""Of a message. The largest hold the log-probabilities of prompts, a hundredth of what the KV
cache of these takes; text that is no frame promises more than this."""


def frame(message: bytes) -> bytes:
    """Raises ValueError if the message is too long."""
    if len(message) > MOST_BYTES:
        raise ValueError(f"a message of {len(message)} bytes is more than {MOST_BYTES}")
    return len(message).to_bytes(LENGTH_BYTES, "big") + message


class Frames:
    """Cuts what arrives into messages, however it was split on the way."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytearray]:
        """The messages that are whole with this. Raises msgspec.DecodeError on a length that
        no message has."""
        self._buffer += data
        while (end := self._end()) <= len(self._buffer):
            message = self._buffer[LENGTH_BYTES:end]
            del self._buffer[:end]
            yield message

    def _end(self) -> int:
        """Of the first message, as far as is known."""
        if len(self._buffer) < LENGTH_BYTES:
            return LENGTH_BYTES
        length = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
        if length > MOST_BYTES:
            raise msgspec.DecodeError(f"a message of {length} bytes is more than {MOST_BYTES}")
        return LENGTH_BYTES + length
