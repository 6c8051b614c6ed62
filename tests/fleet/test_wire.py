from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.fleet.frames import frame
from headrace.fleet.wire import READ_BYTES, Wire

Ends = tuple[Wire, Wire]


@pytest.fixture
def ends() -> Iterator[Ends]:
    near, far = map(Wire, socket.socketpair())
    yield near, far
    near.close()
    far.close()


def test_nothing_has_come(ends: Ends) -> None:
    assert list(ends[0].receive()) == []


def test_both_ends_send_and_receive(ends: Ends) -> None:
    for sender, receiver in (ends, ends[::-1]):
        for message in (b"a", b"", b"bc"):
            assert sender.send(message)
        assert list(receiver.receive()) == [b"a", b"", b"bc"]


@pytest.mark.parametrize("size", [READ_BYTES - 5, READ_BYTES - 4, READ_BYTES - 3, 3 * READ_BYTES])
def test_a_message_may_fill_a_read(ends: Ends, size: int) -> None:
    sent = [bytes(size), b"behind it"]
    assert [ends[0].send(message) for message in sent] == [True, True]
    assert list(ends[1].receive()) == sent


def transfer(sender: Wire, receiver: Wire) -> list[bytes]:
    """All that is kept, and how it arrives when each end has its turns."""
    received: list[bytes] = []
    left = False
    while not left:
        left = sender.flush()
        received += map(bytes, receiver.receive())
    return received


def test_sending_does_not_wait_for_a_reader_and_loses_nothing(ends: Ends) -> None:
    sender, receiver = ends
    sent = [bytes([n]) * 50_000 for n in range(100)]
    left = [sender.send(message) for message in sent]
    assert left[0]
    assert not left[-1]
    assert transfer(sender, receiver) == sent
    assert sender.send(b"again")
    assert list(receiver.receive()) == [b"again"]


def test_a_message_may_be_larger_than_the_socket_holds(ends: Ends) -> None:
    message = bytes(range(256)) * 40_000
    assert not ends[0].send(message)
    assert transfer(*ends) == [message]


@given(st.lists(st.integers(0, 200_000), max_size=8))
def test_sizes_of_all_kinds_arrive_in_order(sizes: list[int]) -> None:
    near, far = map(Wire, socket.socketpair())
    sent = [bytes([n]) * size for n, size in enumerate(sizes)]
    for message in sent:
        near.send(message)
    assert transfer(near, far) == sent
    near.close()
    far.close()


def test_the_end_comes_after_the_last_message(ends: Ends) -> None:
    sender, receiver = ends
    sender.send(b"last words")
    sender.close()
    arriving = receiver.receive()
    assert next(arriving) == b"last words"
    with pytest.raises(EOFError):
        list(receiver.receive())


def test_last_words_are_heard_though_the_speaker_heard_nothing(ends: Ends) -> None:
    sender, receiver = ends
    receiver.send(b"never read")
    sender.send(b"last words")
    sender.close()
    assert receiver.send(b"dropped")
    arriving = receiver.receive()
    assert next(arriving) == b"last words"
    with pytest.raises(EOFError):
        list(receiver.receive())


def test_half_a_message_is_none(ends: Ends) -> None:
    _, receiver = ends
    near, far = socket.socketpair()
    with near:
        near.send(frame(b"abc")[:-1])
    receiver = Wire(far)
    assert list(receiver.receive()) == []
    with pytest.raises(EOFError):
        list(receiver.receive())
    receiver.close()


def test_what_was_kept_for_a_closed_end_is_dropped(ends: Ends) -> None:
    sender, receiver = ends
    assert not sender.send(bytes(10_000_000))
    receiver.close()
    assert sender.flush()
    assert sender.send(b"dropped as well")
