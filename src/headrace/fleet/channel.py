"""The worker's end of the socket to its parent, which is its standard input."""

from __future__ import annotations

import select
from socket import socket
from threading import Lock, Thread
from typing import BinaryIO

import msgspec

from headrace.fleet.config import Launch
from headrace.fleet.messages import FromWorker, ToWorker, unpack_ids
from headrace.fleet.wire import Wire

STDIN = 0
LINGER_SECONDS = 1.0
"""How long a worker that ends may take to get its last words out."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker, dec_hook=unpack_ids)


class ParentGone(Exception):
    """The parent's end is closed: it has ended or wants us to."""


def read_launch(stdin: BinaryIO) -> Launch:
    """The launch line, as `Child.spawn` writes it; `stdin` must not read ahead, since messages
    follow. Raises ParentGone if there is none."""
    line = stdin.readline()
    if not line:
        raise ParentGone
    return msgspec.json.decode(line, type=Launch)


class Channel:
    """Messages from and to the parent. Sending never waits: what a slow parent has no room for
    leaves from a thread, while steps go on."""

    def __init__(self, socket: socket) -> None:
        self._wire = Wire(socket)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(socket, select.POLLIN)
        self._writable.register(socket, select.POLLOUT)
        self._sending = Lock()
        self._draining: Thread | None = None

    def receive(self, *, wait: bool) -> list[ToWorker]:
        """All messages that have come, in order; `wait` sleeps until something comes. Raises
        ParentGone, and msgspec.DecodeError on what is not a message."""
        if wait:
            self._readable.poll()
        try:
            return [_decoder.decode(message) for message in self._wire.receive()]
        except EOFError:
            raise ParentGone from None

    def send(self, message: FromWorker) -> None:
        encoded = _encoder.encode(message)
        with self._sending:
            if not self._wire.send(encoded) and self._draining is None:
                self._draining = Thread(target=self._drain, daemon=True)
                self._draining.start()

    def _drain(self) -> None:
        while True:
            self._writable.poll()
            with self._sending:
                if self._wire.flush():
                    self._draining = None
                    return

    def close(self) -> None:
        """Let go, after giving what was sent a moment to leave."""
        draining = self._draining
        if draining is not None:
            draining.join(LINGER_SECONDS)
        with self._sending:
            self._wire.close()
