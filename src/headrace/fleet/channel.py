"""The worker's end of the socket to its parent."""

from __future__ import annotations

from typing import BinaryIO

import msgspec
import zmq

from headrace.fleet.config import Launch
from headrace.fleet.messages import FromWorker, ToWorker, unpack_ids

LINGER_MS = 1000
"""How long a worker that ends may take to get its last words out."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker, dec_hook=unpack_ids)


class ParentGone(Exception):
    """The parent has closed our standard input: it has ended or wants us to."""


def read_launch(stdin: BinaryIO) -> Launch:
    """The launch line, as `Child.spawn` writes it. Raises ParentGone if there is none."""
    line = stdin.readline()
    if not line:
        raise ParentGone
    return msgspec.json.decode(line, type=Launch)


class Channel:
    """Messages from and to the parent. Sending never waits."""

    def __init__(self, endpoint: str, stdin: BinaryIO) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.set_hwm(0)
        self._socket.linger = LINGER_MS
        self._socket.connect(endpoint)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(stdin, zmq.POLLIN)

    def receive(self, *, wait: bool) -> list[ToWorker]:
        """All messages that have come, in order; `wait` sleeps until there is one. Raises
        ParentGone, and msgspec.DecodeError on what is not a message."""
        events = dict(self._poller.poll(None if wait else 0))
        if not events:
            return []
        if any(source is not self._socket for source in events):
            raise ParentGone
        messages = []
        while int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            messages.append(_decoder.decode(self._socket.recv(zmq.NOBLOCK)))
        return messages

    def send(self, message: FromWorker) -> None:
        self._socket.send(_encoder.encode(message))

    def close(self) -> None:
        """Let go, after giving what was sent a moment to leave."""
        self._socket.close()
        self._context.term()
