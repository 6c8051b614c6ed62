from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest
import zmq

from headrace.engine.output import Output
from headrace.fleet.channel import Channel, ParentGone, read_launch
from headrace.fleet.config import Launch, WorkerConfig
from headrace.fleet.messages import Cancel, FromWorker, Outputs, Probe, Submit, pack_ids

from .conftest import request

CONFIG = WorkerConfig(path="x", model="m", version="1")


@dataclass
class Ends:
    channel: Channel
    parent: zmq.Socket[bytes]
    lifeline: BinaryIO


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    endpoint = f"ipc://{tmp_path / 'worker'}"
    reading, writing = os.pipe()
    with zmq.Context() as context, context.socket(zmq.PAIR) as parent:
        parent.linger = 0
        parent.bind(endpoint)
        with os.fdopen(reading, "rb") as stdin, os.fdopen(writing, "wb") as lifeline:
            channel = Channel(endpoint, stdin)
            yield Ends(channel, parent, lifeline)
            channel.close()


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    sent = [Submit([request("a")]), Cancel(["a", "b"]), Probe(7)]
    for message in sent:
        ends.parent.send(msgspec.msgpack.encode(message, enc_hook=pack_ids))
    received = []
    while len(received) < len(sent):
        received += ends.channel.receive(wait=True)
    assert received == sent
    assert ends.channel.receive(wait=False) == []

    outputs = Outputs([Output(id="a", text="é", tokens=[1, 2])])
    ends.channel.send(outputs)
    assert msgspec.msgpack.decode(ends.parent.recv(), type=FromWorker) == outputs


@pytest.mark.parametrize("garbage", [b"", b"\xc1", b"\x80", b"cos\nsystem\n(S'true'\ntR."])
def test_what_is_not_a_message_is_refused(ends: Ends, garbage: bytes) -> None:
    ends.parent.send(garbage)
    with pytest.raises(msgspec.DecodeError):
        ends.channel.receive(wait=True)


@pytest.mark.parametrize("wait", [True, False])
def test_the_end_of_standard_input_is_the_end_of_the_parent(ends: Ends, wait: bool) -> None:
    ends.lifeline.close()
    with pytest.raises(ParentGone):
        ends.channel.receive(wait=wait)


def test_the_launch_line_survives_the_journey() -> None:
    launch = Launch(endpoint="ipc:///run/é", parent=12, config=CONFIG)
    assert read_launch(io.BytesIO(msgspec.json.encode(launch) + b"\n")) == launch


def test_no_launch_line_means_no_parent() -> None:
    with pytest.raises(ParentGone):
        read_launch(io.BytesIO())
