from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from headrace.engine.output import Output
from headrace.fleet.channel import Channel, ParentGone, read_launch
from headrace.fleet.config import Launch, WorkerConfig
from headrace.fleet.messages import Cancel, Failed, FromWorker, Outputs, Probe, Submit, pack_ids
from headrace.fleet.wire import Wire

from .conftest import request

CONFIG = WorkerConfig(path="x", model="m", version="1")


@dataclass
class Ends:
    channel: Channel
    parent: Wire


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    channel, parent = Channel(theirs), Wire(ours)
    yield Ends(channel, parent)
    parent.close()
    channel.close()


def read(parent: Wire, messages: int) -> list[FromWorker]:
    received: list[FromWorker] = []
    deadline = time.monotonic() + 30
    while len(received) < messages:
        assert time.monotonic() < deadline
        received += [msgspec.msgpack.decode(one, type=FromWorker) for one in parent.receive()]
    return received


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    sent = [Submit([request("a")]), Cancel(["a", "b"]), Probe(7)]
    for message in sent:
        ends.parent.send(msgspec.msgpack.encode(message, enc_hook=pack_ids))
    assert ends.channel.receive(wait=True) == sent
    assert ends.channel.receive(wait=False) == []

    outputs = Outputs([Output(id="a", text="é", tokens=[1, 2])])
    ends.channel.send(outputs)
    assert read(ends.parent, 1) == [outputs]


@pytest.mark.parametrize("garbage", [b"", b"\xc1", b"\x80", b"cos\nsystem\n(S'true'\ntR."])
def test_what_is_not_a_message_is_refused(ends: Ends, garbage: bytes) -> None:
    ends.parent.send(garbage)
    with pytest.raises(msgspec.DecodeError):
        ends.channel.receive(wait=True)


@pytest.mark.parametrize("wait", [True, False])
def test_the_end_of_the_socket_is_the_end_of_the_parent(ends: Ends, wait: bool) -> None:
    ends.parent.close()
    ends.channel.send(Failed("to nobody"))
    with pytest.raises(ParentGone):
        ends.channel.receive(wait=wait)


def large(n: int) -> Outputs:
    return Outputs([Output(id=f"{n}", text="x" * 1_000_000)])


def test_a_slow_parent_gets_everything_while_the_worker_computes(ends: Ends) -> None:
    sent = [large(n) for n in range(20)]
    for message in sent:
        ends.channel.send(message)
    assert read(ends.parent, len(sent)) == sent  # and nobody asks the channel to send them
    ends.channel.send(large(20))
    assert read(ends.parent, 1) == [large(20)]


def test_last_words_leave_before_the_channel_closes(ends: Ends) -> None:
    ends.channel.send(large(0))
    ends.channel.send(Failed("no more"))
    closing = threading.Thread(target=ends.channel.close)
    closing.start()
    assert read(ends.parent, 2) == [large(0), Failed("no more")]
    closing.join()


def test_a_parent_that_reads_nothing_does_not_keep_a_worker_from_ending(ends: Ends) -> None:
    ends.channel.send(large(0))
    ends.channel.close()


def test_the_launch_line_survives_the_journey() -> None:
    launch = Launch(parent=12, config=CONFIG)
    assert read_launch(io.BytesIO(msgspec.json.encode(launch) + b"\n")) == launch


def test_no_launch_line_means_no_parent() -> None:
    with pytest.raises(ParentGone):
        read_launch(io.BytesIO())
