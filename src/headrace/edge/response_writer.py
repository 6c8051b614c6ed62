"""An HTTP/1.1 response (RFC 9112) from the ASGI messages that tell it."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from headrace.edge.request_reader import RequestHead

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}
_STATUS_LINES[529] = b"HTTP/1.1 529 Overloaded\r\n"
_WITHOUT_BODY = (204, 304)
_CLOSE = b"connection: close\r\n\r\n"


class ResponseWriter:
    """Frames the response to one request: by the length in its headers, by its own length where
    the whole body comes at once, in chunks, or by the connection's end for HTTP/1.0.

    keep_alive: the connection stays open after the response. started: `start` was called.
    """

    keep_alive = False
    started = False
    _chunked = False
    _head = b""
    _kept = b""
    _length: int | None = None

    def __init__(self, head: RequestHead) -> None:
        self._http10 = head.version == "1.0"
        self._bodiless = head.method == "HEAD"

    def start(
        self, status: int, headers: Iterable[tuple[bytes, bytes]], date: bytes, kept: bytes
    ) -> None:
        """Take the head. date: its header line. kept: the last header lines and the blank line of
        a response behind which the connection stays open; empty if it does not. Raises ValueError
        for headers that would not be read as they are meant."""
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, date]
        for name, value in headers:
            if name == b"content-length":
                self._length = int(value)
            lines.append(b"%b: %b\r\n" % (name, value))
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise ValueError("a header of the response has a line break in it")
        if status in _WITHOUT_BODY:
            self._bodiless, self._length = True, 0
        self._head, self._kept = head, kept
        self.keep_alive, self.started = bool(kept), True

    @property
    def has_length(self) -> bool:
        """How long the body is was told, or is plain."""
        return self._length is not None

    @property
    def holds_head(self) -> bool:
        """The head was not given out: it goes with the first piece of the body."""
        return bool(self._head)

    def body(self, data: bytes, *, more: bool) -> bytes:
        """The bytes for the connection: with the first piece the head, too. Raises ValueError if
        the body is longer or shorter than was told; the connection has to be cut then."""
        begun = self._begin(data, more) if self._head else b""
        if self._bodiless:
            return begun
        if self._chunked:
            if not data:
                return begun if more else begun + b"0\r\n\r\n"
            return b"%b%x\r\n%b%b" % (begun, len(data), data, b"\r\n" if more else b"\r\n0\r\n\r\n")
        if self._length is not None:
            self._length -= len(data)
            if self._length < 0 or (self._length and not more):
                raise ValueError("the body's length is not what content-length tells")
        return begun + data

    def _begin(self, data: bytes, more: bool) -> bytes:
        framing = b""
        if self._length is None and not self._bodiless:
            if not more:
                self._length = len(data)
                framing = b"content-length: %d\r\n" % len(data)
            elif self._http10:
                self.keep_alive = False
            else:
                self._chunked = True
                framing = b"transfer-encoding: chunked\r\n"
        head, self._head = self._head, b""
        return b"%b%b%b" % (head, framing, self._kept if self.keep_alive else _CLOSE)
