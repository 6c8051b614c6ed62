"""One end of the socket pair between the serving process and an engine's."""

from __future__ import annotations

from collections.abc import Iterator
from socket import socket

from headrace.fleet.frames import Frames, frame

READ_BYTES = 1 << 16


class Wire:
    """Carries messages as bytes. Sending never waits: what the socket does not take is kept.

    What is kept has no limit of its own. It is bounded by what is under way: towards a worker
    by the requests that it has room for, towards the parent by the tokens that these may take.
    """

    def __init__(self, socket: socket) -> None:
        socket.setblocking(False)
        self._socket = socket
        self._frames = Frames()
        self._unsent = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: bytes) -> bool:
        """Whether all has left; the rest waits for `flush`."""
        self._unsent += frame(message)
        return self.flush()

    def flush(self) -> bool:
        """Send what was kept, as far as the socket takes it; whether all has left.

        What is for an end that is closed is dropped: whoever receives learns of that.
        """
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            return False
        except ConnectionError:
            self._unsent.clear()
        return True

    def receive(self) -> Iterator[bytearray]:
        """The messages that have come, in order. Raises EOFError after the last when the other
        end is closed, msgspec.DecodeError on what is no frame."""
        while True:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:  # it was closed with something of ours unread
                data = b""
            if not data:
                raise EOFError
            yield from self._frames.feed(data)
            if len(data) < READ_BYTES:
                return

    def close(self) -> None:
        """What was kept is lost."""
        self._unsent.clear()
        self._socket.close()
