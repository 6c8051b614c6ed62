"""HTTP/1.1 requests out of bytes: what is one, what is none, and that splits change nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.openai.errors import ApiError
from headrace.edge.request_reader import CHUNKS_AT_ONCE, MAX_HEAD_BYTES, MAX_HEADERS, RequestReader

GET = b"GET / HTTP/1.1\r\nhost: a\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
PIPELINE = (
    b"POST /v1/x?a=%20b HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello\r\n\r\nxx"
    b"GET /healthz HTTP/1.1\r\nhost: a\r\nempty:\r\nx:  spaced \r\n\r\n"
    + CHUNKED
    + b"5;ext=1\r\n\r\n\r\nx\r\n3\r\nabc\r\n0\r\ntrailer: t\r\n\r\n"
    b"\r\nGET http://h:1/p?q HTTP/1.1\r\nhost: a\r\n\r\n" + CHUNKED + b"0\r\n\r\n"
    b"POST /up HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
    b"transfer-encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n"
    b"POST /up HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
    b"content-length: 4\r\n\r\nGET "
    b"HEAD / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
)

Read = tuple[str, str, bytes, str, bool, bytes]


def read(pieces: list[bytes]) -> list[Read | int]:
    """Each request (method, path, query, version, whether it keeps alive, body), or the status of
    its refusal."""
    reader, found = RequestReader(), list[Read | int]()
    head, body = None, b""
    for piece in pieces:
        reader.feed(piece)
        try:
            while True:
                if head is None:
                    head, body = reader.next_head(), b""
                if head is None:
                    break
                while piece := reader.next_body():
                    body += piece
                if not reader.body_complete:
                    break
                found.append(
                    (head.method, head.path, head.query, head.version, head.keep_alive, body)
                )
                head = None
        except ApiError as error:
            return [*found, error.status]
    return found


EXPECTED: list[Read | int] = [
    ("POST", "/v1/x", b"a=%20b", "1.1", True, b"hello\r\n\r\nxx"),
    ("GET", "/healthz", b"", "1.1", True, b""),
    ("POST", "/", b"", "1.1", True, b"\r\n\r\nxabc"),
    ("GET", "/p", b"q", "1.1", True, b""),
    ("POST", "/", b"", "1.1", True, b""),
    ("POST", "/up", b"", "1.1", True, b"GET"),
    ("POST", "/up", b"", "1.1", True, b"GET "),
    ("HEAD", "/", b"", "1.0", True, b""),
]


def test_a_pipeline_at_once() -> None:
    assert read([PIPELINE]) == EXPECTED


def test_a_pipeline_byte_by_byte() -> None:
    assert read([bytes([byte]) for byte in PIPELINE]) == EXPECTED


def cut(data: bytes, cuts: set[int]) -> list[bytes]:
    ends = sorted(cuts)
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True) if a < b]


@given(st.sets(st.integers(1, len(PIPELINE) - 1), max_size=40))
def test_splits_change_nothing(cuts: set[int]) -> None:
    assert read(cut(PIPELINE, cuts)) == EXPECTED


NONE = {
    "no method": b"\x16\x03\x01\x02\x00\x01\x00",
    "unknown method": b"FOO / HTTP/1.1\r\nhost: a\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nhost: a\n\n",
    "bare LF behind a header": GET + b"a: b\nc: d\r\n\r\n",
    "bare CR in a value": GET + b"a: b\rc\r\n\r\n",
    "obs-fold": GET + b"a: b\r\n c\r\n\r\n",
    "space before the colon": GET + b"a : b\r\n\r\n",
    "NUL in a name": GET + b"a\0: b\r\n\r\n",
    "NUL in a value": GET + b"a: b\0\r\n\r\n",
    "no colon": GET + b"nonsense\r\n\r\n",
    "two lengths": GET + b"content-length: 3\r\ncontent-length: 3\r\n\r\n",
    "contradictory lengths": GET + b"content-length: 3\r\ncontent-length: 4\r\n\r\n",
    "a list of lengths": GET + b"content-length: 3, 3\r\n\r\n",
    "a signed length": GET + b"content-length: +3\r\n\r\n",
    "an empty length": GET + b"content-length:\r\n\r\n",
    "a huge length": GET + b"content-length: 99999999999999999999\r\n\r\n",
    "length and coding": GET + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
    "coding and length": GET + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
    "chunked twice": GET + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
    "chunked not last": GET + b"transfer-encoding: chunked, gzip\r\n\r\n",
    "nearly chunked": GET + b"transfer-encoding: xchunked\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"host: b\r\n\r\n",
    "a fragment": b"GET /#a HTTP/1.1\r\nhost: a\r\n\r\n",
    "no path": b"GET foo HTTP/1.1\r\nhost: a\r\n\r\n",
    "a space in the path": b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
    "a chunk without a size": CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "a chunk size with a space": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "a chunk size with a prefix": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a negative chunk size": CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
    "a huge chunk size": CHUNKED + b"fffffffffffffffff\r\n",
    "a chunk longer than its size": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk size with a sign": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "a chunk size with an underscore": CHUNKED + b"0_3\r\nabc\r\n0\r\n\r\n",
    "a chunk shorter than its size": CHUNKED + b"4\r\nabc\r\n0\r\n\r\n",
    "bare LF behind a chunk": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "bare CR in an extension": CHUNKED + b"3;a\rb\r\nabc\r\n0\r\n\r\n",
    "bare LF in an extension": CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "NUL in an extension": CHUNKED + b"3;a\0b\r\nabc\r\n0\r\n\r\n",
    "no blank line behind the last chunk": CHUNKED + b"0\r\nGET / HTTP/1.1\r\n\r\n",
    "bare LF behind the last chunk": CHUNKED + b"0\r\n\n",
    "chunks with bare LF": CHUNKED + b"3\nabc\n0\n\n",
    "a trailer that is a length": CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n",
    "a folded trailer": CHUNKED + b"0\r\na: b\r\n c\r\n\r\n",
}


@pytest.mark.parametrize("data", NONE.values(), ids=NONE.keys())
def test_what_is_no_request_is_a_400_however_it_is_split(data: bytes) -> None:
    assert read([data]) == [400]
    assert read([bytes([byte]) for byte in data]) == [400]


def test_an_unknown_coding_is_501() -> None:
    assert read([GET + b"transfer-encoding: gzip, chunked\r\n\r\n"]) == [501]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/2.0\r\nhost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
    ],
)
def test_another_version_is_505(data: bytes) -> None:
    assert read([data]) == [505]


def test_tls_is_told_so() -> None:
    reader = RequestReader()
    reader.feed(b"\x16\x03\x01\x02\x00")
    with pytest.raises(ApiError, match="TLS"):
        reader.next_head()


def long_head(size: int) -> bytes:
    return GET + b"x: " + b"y" * (size - len(GET) - 7) + b"\r\n\r\n"


@pytest.mark.parametrize("piece", [1 << 20, 4096, 1000])
def test_the_limit_of_a_head_holds_however_it_comes(piece: int) -> None:
    def pieces(data: bytes) -> list[bytes]:
        return [data[at : at + piece] for at in range(0, len(data), piece)]

    assert len(long_head(MAX_HEAD_BYTES)) == MAX_HEAD_BYTES
    assert read(pieces(long_head(MAX_HEAD_BYTES)))[0][0] == "GET"  # type: ignore[index]
    assert read(pieces(long_head(MAX_HEAD_BYTES + 1))) == [431]
    assert read(pieces(long_head(10 * MAX_HEAD_BYTES))) == [431]


@pytest.mark.parametrize("piece", [1 << 20, 100])
def test_the_limit_of_headers_holds_however_they_come(piece: int) -> None:
    for count, wanted in ((MAX_HEADERS, "GET"), (MAX_HEADERS + 1, 431), (10_000, 431)):
        data = GET + b"a: b\r\n" * (count - 1) + b"\r\n"
        found = read([data[at : at + piece] for at in range(0, len(data), piece)])
        assert (found[0] if found == [431] else found[0][0]) == wanted  # type: ignore[index]


def test_a_request_behind_a_long_body_is_read() -> None:
    body = b"x" * 90_000
    first = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert len(read([first + body + GET + b"\r\n"])) == 2
    assert len(read([first + body + GET, b"\r\n"])) == 2  # 0.1.0: 431


def test_a_length_of_many_digits_is_read() -> None:
    data = GET + b"content-length: " + b"0" * 5000 + b"3\r\n\r\nabc"
    assert read([data])[0][-1] == b"abc"  # type: ignore[index]


def chunks(*contents: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(content), content) for content in contents)


def test_chunks_that_are_mostly_framing_are_refused() -> None:
    few = chunks(*[b"a"] * 10_000)
    assert read([CHUNKED + few + b"0\r\n\r\n"])[0][-1] == b"a" * 10_000  # type: ignore[index]
    assert read([CHUNKED + chunks(*[b"a"] * 50_000) + b"0\r\n\r\n"]) == [400]
    assert read([CHUNKED + chunks(*[b"a" * 19] * 100_000) + b"0\r\n\r\n"]) == [400]
    larger = read([CHUNKED + chunks(*[b"a" * 24] * 100_000) + b"0\r\n\r\n"])
    assert larger[0][-1] == b"a" * 2_400_000  # type: ignore[index]
    first = chunks(b"a" * 10_000_000)
    assert read([CHUNKED + first + chunks(*[b"a"] * 50_000)]) == [400], "contents save nothing up"
    extended = b"1;" + b"e" * 100 + b"\r\na\r\n"
    assert read([CHUNKED + extended * 2000]) == [400]


@pytest.mark.parametrize("piece", [1 << 20, 100])
def test_a_chunk_s_extensions_have_a_limit(piece: int) -> None:
    for size, wanted in ((4000, [b"a"]), (5000, []), (100_000, [])):
        data = CHUNKED + b"1;" + b"e" * size + b"\r\na\r\n0\r\n\r\n"
        found = read([data[at : at + piece] for at in range(0, len(data), piece)])
        assert found == [400] if not wanted else [one[-1] for one in found] == wanted  # type: ignore[index]


@pytest.mark.parametrize("piece", [1 << 20, 100])
def test_trailers_have_a_limit(piece: int) -> None:
    data = CHUNKED + chunks(b"x" * 200_000) + b"0\r\n" + b"a: b\r\n" * 20_000 + b"\r\n"
    assert read([data[at : at + piece] for at in range(0, len(data), piece)]) == [400]


def calls(step: Callable[[], object]) -> int:
    """How many functions `step` calls: the work that no clock of a busy machine disturbs."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("content", [b"\r\n\r\n", b"\r\n0\r\n\r\n", b"\r\n"])
def test_a_chunk_costs_the_same_whatever_is_in_it(content: bytes) -> None:
    reader = RequestReader()
    reader.feed(CHUNKED)
    assert reader.next_head()
    body = content * 10_000
    reader.feed(chunks(body, body) + b"0\r\n\r\n")
    assert calls(reader.next_body) < 200, "0.1.0: 30,000 and more"
    assert reader.body_complete


def test_many_chunks_are_taken_in_several_goes() -> None:
    reader = RequestReader()
    reader.feed(CHUNKED)
    assert reader.next_head()
    reader.feed(chunks(*[b"a"] * 2 * CHUNKS_AT_ONCE) + b"0\r\n\r\n")
    assert [reader.next_body() for _ in range(2)] == [b"a" * CHUNKS_AT_ONCE] * 2
    assert not reader.body_complete
    assert reader.next_body() == b""
    assert reader.body_complete


def test_blank_lines_before_a_head_cost_nothing_each() -> None:
    reader = RequestReader()
    reader.feed(b"\r\n" * 30_000 + GET + b"\r\n")
    assert calls(reader.next_head) < 200
    assert read([b"\r\n" * 30_000 + GET + b"\r\n"])[0][0] == "GET"  # type: ignore[index]
    assert read([b"\r\n" * 40_000 + GET + b"\r\n"]) == [431]


BODY = (
    chunks(b"\r\n0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"a" * 300, b"\r")
    + b'0;x="y"\r\nt: u\r\n\r\n'
)
TWICE = (b"\r\n\r\n" + CHUNKED + BODY) * 2


@given(st.sets(st.integers(1, len(TWICE) - 1), max_size=40))
def test_splits_of_chunks_change_nothing(cuts: set[int]) -> None:
    body = b"\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n" + b"a" * 300 + b"\r"
    assert read(cut(TWICE, cuts)) == [("POST", "/", b"", "1.1", True, body)] * 2


def test_only_what_is_asked_for_is_parsed() -> None:
    reader = RequestReader()
    reader.feed(GET + b"\r\n" + b"nonsense\r\n\r\n")
    assert reader.next_head() is not None
    assert reader.buffered == len(b"nonsense\r\n\r\n")


def test_a_client_that_waits_before_its_body_is_known() -> None:
    def expects(head: bytes) -> bool:
        reader = RequestReader()
        reader.feed(head + b"\r\n")
        found = reader.next_head()
        assert found is not None
        return found.expects_continue

    assert expects(GET + b"content-length: 3\r\nexpect: 100-Continue\r\n")
    assert expects(GET + b"transfer-encoding: chunked\r\nexpect: 100-continue\r\n")
    assert not expects(GET + b"expect: 100-continue\r\n")
    assert not expects(b"GET / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 3\r\n")
