"""HTTP/1.1 requests (RFC 9112) out of a connection's bytes, however those are split."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import unquote

import httptools

from headrace.api.openai.errors import (
    ApiError,
    head_too_large,
    malformed_request,
    transfer_coding_not_supported,
    version_not_supported,
)

MAX_HEAD_BYTES = 64 << 10
"""Of the request line and the headers together."""

MAX_HEADERS = 200

MAX_EXTENSIONS = 4096
"""Bytes of one chunk's extensions."""

MAX_FRAMING = 64 << 10
"""Bytes of chunk sizes, extensions and line breaks that a body may have in advance of its contents:
some 13,000 chunks. Each chunk takes the same time, however short it is."""

FRAMING_COSTS = 4
"""Bytes of contents that make up for one of framing. With 24 bytes a chunk there is no limit."""

CHUNKS_AT_ONCE = 1000
"""Chunks that are given out at once, at most: about a millisecond."""

_UNDERSTOOD = frozenset({b"content-length", b"transfer-encoding", b"expect", b"host"})
_BLANK_LINE = b"\r\n\r\n"
_BLANK_LINES = re.compile(rb"[\r\n]*")
_EXTENSIONS = rb";[\t\x20-\x7e\x80-\xff]{0,%d}" % MAX_EXTENSIONS
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:%b)?\r\n" % _EXTENSIONS)
_BEGUN_CHUNK_LINE = re.compile(rb"[0-9A-Fa-f]{0,16}|[0-9A-Fa-f]{1,16}(?:%b)?\r?" % _EXTENSIONS)
_FRAMING_ROOM = MAX_FRAMING * FRAMING_COSTS
_NO_CHUNK = f"a chunk begins with no size, or has more than {MAX_EXTENSIONS} bytes of extensions"
_TLS_HANDSHAKE = b"\x16\x03"


class RequestHead:
    """What a request says before its body.

    target: as it was sent. path: decoded; raw_path and query: as they were sent. headers: names
    in lower case, in the order in which they came. version: "1.0" or "1.1". keep_alive: the client
    wants the connection to stay open. length: bytes of the body, None if it is chunked.
    expects_continue: the client waits for a `100 Continue` before it sends the body.
    """

    method = ""
    path = ""
    raw_path = b""
    query = b""
    version = "1.1"
    keep_alive = True
    length: int | None = 0
    expects_continue = False

    def __init__(self) -> None:
        self.target = b""
        self.headers: list[tuple[bytes, bytes]] = []


class RequestReader:
    """Pull parser of one connection: `feed` it bytes, then ask for the next head, then for its
    body, then for the next head. Nothing beyond what was asked for is parsed, so requests that
    a client sent ahead cost no more than their bytes.

    Heads and trailers are parsed by httptools. Bodies are counted here, by their length or chunk
    by chunk, so that what a body contains changes nothing in what it costs. Whatever is not
    plainly HTTP/1.1 is refused, as another server on the way might read it otherwise.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._at = 0  # what is before it was given out
        self._head: _HeadParser | None = None
        self._body: _ChunkedBody | None = None
        self._remaining = 0

    @property
    def buffered(self) -> int:
        """Bytes that were fed and not asked for yet."""
        return len(self._buffer) - self._at

    @property
    def in_head(self) -> bool:
        """A head has begun and is not complete."""
        return self._head is not None

    @property
    def partial(self) -> RequestHead:
        """What is known of the head that has begun."""
        return self._head.partial() if self._head is not None else RequestHead()

    @property
    def body_complete(self) -> bool:
        """The body of the latest head was given out whole."""
        return self._remaining == 0 and self._body is None

    @property
    def remaining(self) -> int | None:
        """Bytes of the body that are still to come or to be asked for; None if nobody knows."""
        return None if self._body is not None else self._remaining

    def feed(self, data: bytes) -> None:
        """More bytes from the connection."""
        self._buffer = self._buffer[self._at :] + data if self._buffer else data
        self._at = 0

    def next_head(self) -> RequestHead | None:
        """The next request's head, None if it is not complete yet. The body before it must be
        complete. Raises ApiError for what is no request; the connection is of no use then."""
        while self._buffer:  # it is empty as soon as all of it was given out
            parser = self._head
            if parser is None:
                parser = self._head = _HeadParser()
            piece = b"" if parser.begun else self._blank_lines()
            if parser.feed(piece or self._lines(parser.tail)):
                head = parser.result()
                self._head = None
                self._remaining = head.length or 0
                self._body = _ChunkedBody() if head.length is None else None
                return head
        return None

    def next_body(self) -> bytes:
        """What is there of the body, or of a body of very many chunks a part of it; nothing if more
        has to be fed. Raises ApiError if it is not well formed; the connection is
        of no use then."""
        body = self._body
        if body is None:
            piece = self._cut(self._at + self._remaining)
            self._remaining -= len(piece)
            return piece
        self._cut(body.read(self._buffer, self._at))
        trailers = body.trailers
        if trailers is not None:
            if self._buffer:
                trailers.feed(self._lines(trailers.tail))
            if trailers.complete:
                self._body = None
        return body.take()

    def _blank_lines(self) -> bytes:
        """Those which a client may send before a head."""
        return self._cut(_BLANK_LINES.match(self._buffer, self._at).end())  # type: ignore[union-attr]

    def _lines(self, tail: bytes) -> bytes:
        """What is there up to the next blank line, with it. tail: the bytes before. Heads and
        trailers end at their first blank line, so that a parser which is fed so far and no
        further never sees the beginning of the next message."""
        buffer, start = self._buffer, self._at
        if tail:
            at = (tail + buffer[start : start + 3]).find(_BLANK_LINE)
            if at >= 0:
                return self._cut(start + at + len(_BLANK_LINE) - len(tail))
        at = buffer.find(_BLANK_LINE, start)
        return self._cut(len(buffer) if at < 0 else at + len(_BLANK_LINE))

    def _cut(self, end: int) -> bytes:
        buffer, start = self._buffer, self._at
        if end < len(buffer):
            self._at = end
        else:
            self._buffer, self._at = b"", 0
        return buffer[start:end]


class _HeadParser:
    """httptools' parser of one head."""

    tail = b""
    _size = 0
    _overflow = ""
    _complete = False

    def __init__(self) -> None:
        self.head = RequestHead()
        self._headers = self.head.headers
        self._parser = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        self.head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        if len(headers) == MAX_HEADERS:
            self._overflow = f"{MAX_HEADERS} headers"
            raise OverflowError
        headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._complete = True
        self.head.keep_alive = self._parser.should_keep_alive()  # it is forgotten behind the body

    @property
    def begun(self) -> bool:
        """More came than blank lines."""
        return bool(self.head.target)

    def feed(self, data: bytes) -> bool:
        """Whether the head is complete now. Raises ApiError."""
        first = not self._size
        room = MAX_HEAD_BYTES - self._size
        self._size += len(data)
        try:
            self._parser.feed_data(data[:room])
        except httptools.HttpParserUpgrade:
            pass  # nothing here is upgraded to: it is answered as any other request
        except httptools.HttpParserError as error:
            if self._overflow:
                raise head_too_large(self._overflow) from None
            if first and data.startswith(_TLS_HANDSHAKE):
                raise malformed_request("this is TLS, and plain HTTP is spoken here") from None
            if self.head.target and self._parser.get_method() == b"PRI":
                raise version_not_supported("2.0") from None
            raise malformed_request(_words(error)) from None
        if self._size > MAX_HEAD_BYTES:
            raise head_too_large(f"{MAX_HEAD_BYTES} bytes")
        if self._complete:
            return True
        self.tail = (self.tail + data)[-3:]
        return False

    def partial(self) -> RequestHead:
        """What is known of it, however little."""
        if self.head.target:
            self.head.method = self._parser.get_method().decode("ascii")
            with contextlib.suppress(ApiError):
                _read_target(self.head)
        return self.head

    def result(self) -> RequestHead:
        """The head, understood. Raises ApiError."""
        head, parser = self.head, self._parser
        head.version = parser.get_http_version()
        if head.version not in ("1.1", "1.0"):
            raise version_not_supported(head.version)
        head.method = parser.get_method().decode("ascii")
        _read_target(head)
        hosts = 0
        for name, value in head.headers:
            if name not in _UNDERSTOOD:
                continue
            if name == b"content-length":
                head.length = int(value.strip().lstrip(b"0") or b"0")  # of any number of digits
            elif name == b"transfer-encoding":
                _check_coding(value, head.version)
                head.length = None
            elif name == b"expect":
                head.expects_continue = value.strip().lower() == b"100-continue"
            else:
                hosts += 1
        if hosts != 1 and (hosts or head.version == "1.1"):
            raise malformed_request(f"it has {hosts} Host headers in place of one")
        if head.length == 0 or head.version == "1.0":
            head.expects_continue = False
        del self._parser  # which holds this object
        return head


def _read_target(head: RequestHead) -> None:
    target = head.target
    if not target.startswith(b"/"):
        if target == b"*" or head.method == "CONNECT":
            head.path, head.raw_path = target.decode("ascii"), target
            return
        try:
            url = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError:
            raise malformed_request("its target is no URL") from None
        target = (url.path or b"/") + (b"?" + url.query if url.query is not None else b"")
    if b"#" in head.target:
        raise malformed_request("its target has a fragment")
    head.raw_path, _, head.query = target.partition(b"?")
    path = head.raw_path.decode("ascii")
    head.path = unquote(path) if "%" in path else path


def _check_coding(value: bytes, version: str) -> None:
    coding = value.strip().lower()
    if version == "1.0":
        raise malformed_request("HTTP/1.0 has no Transfer-Encoding")
    if coding != b"chunked":
        raise transfer_coding_not_supported()


def _words(error: httptools.HttpParserError) -> str:
    text = str(error)
    return f"{text[:1].lower()}{text[1:]}"


class _ChunkedBody:
    """Takes one chunked body apart. trailers: those behind the last chunk, once it was read."""

    trailers: _Trailers | None = None

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._room = _FRAMING_ROOM
        self._left = 0  # of the chunk at hand, with the line break behind it

    def read(self, buffer: bytes, at: int) -> int:
        """Take what is there from `at` on, up to the last chunk's line; where that ends. A line
        that is not complete is left. Raises ApiError."""
        left, room = self._left, self._room
        while self.trailers is None:
            if left > 2:
                data = buffer[at : at + left - 2]
                self._parts.append(data)
                at += len(data)
                left -= len(data)
            if left:
                if left > 2 or len(buffer) - at < 2:
                    break
                if not buffer.startswith(b"\r\n", at):
                    raise malformed_request("a chunk is longer than its size")
                at += 2
            line = _CHUNK_LINE.match(buffer, at)
            if line is None:
                left = 0
                if not _BEGUN_CHUNK_LINE.fullmatch(buffer, at):
                    raise malformed_request(_NO_CHUNK)
                break
            if len(self._parts) >= CHUNKS_AT_ONCE:
                left = 0
                break
            begin, size = line.end(), int(line[1], 16)
            room -= (begin - at + 2) * FRAMING_COSTS
            if room < 0:
                raise malformed_request("its chunks are too short")
            room += size
            if room > _FRAMING_ROOM:
                room = _FRAMING_ROOM
            at = begin
            if size:
                left = size + 2
            else:
                self.trailers = _Trailers()
        self._left, self._room = left, room
        return at

    def take(self) -> bytes:
        """What came since the last time."""
        body = b"".join(self._parts)
        self._parts.clear()
        return body


class _Trailers:
    """httptools' parser of what follows the last chunk's line."""

    def __init__(self) -> None:
        self.complete = False
        self.tail = b"0\r\n"
        self._size = 0
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")

    def on_message_complete(self) -> None:
        self.complete = True

    def feed(self, data: bytes) -> None:
        """Raises ApiError."""
        self.tail = (self.tail + data)[-3:]
        self._size += len(data)
        if self._size > MAX_HEAD_BYTES:
            raise malformed_request(f"its trailers have more than {MAX_HEAD_BYTES} bytes")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise malformed_request(_words(error)) from None
