from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.fleet import frames
from headrace.fleet.frames import Frames, frame

messages = st.lists(st.binary(max_size=300), max_size=12)


@given(messages, st.data())
def test_any_chunks_of_the_stream_give_the_same_messages(
    sent: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    cutter = Frames()
    received = [
        bytes(message)
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for message in cutter.feed(stream[begin:end])
    ]
    assert received == sent


def test_a_message_comes_with_its_last_byte() -> None:
    cutter = Frames()
    stream = frame(b"abc")
    for byte in stream[:-1]:
        assert list(cutter.feed(bytes([byte]))) == []
    assert list(cutter.feed(stream[-1:])) == [b"abc"]


def test_what_is_left_unread_is_not_lost() -> None:
    cutter = Frames()
    assert next(cutter.feed(frame(b"a") + frame(b"b"))) == b"a"
    assert list(cutter.feed(b"")) == [b"b"]


@pytest.mark.parametrize("text", [b"Traceback", b"{}\n\n", b"\xff\xff\xff\xff"])
def test_a_length_that_no_message_has_is_refused_at_once(text: bytes) -> None:
    cutter = Frames()
    arriving = cutter.feed(frame(b"good") + text)
    assert next(arriving) == b"good"
    with pytest.raises(msgspec.DecodeError, match=r"a message of \d+ bytes"):
        next(arriving)


def test_a_message_that_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MOST_BYTES", 3)
    assert list(Frames().feed(frame(b"abc"))) == [b"abc"]
    with pytest.raises(ValueError, match="4 bytes is more than 3"):
        frame(b"abcd")
