"""One worker process and the socket to it, seen from its parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

import msgspec

from headrace.fleet.config import Launch, WorkerConfig
from headrace.fleet.messages import FromWorker, ToWorker, pack_ids
from headrace.fleet.process import environment
from headrace.fleet.wire import Wire

_encoder = msgspec.msgpack.Encoder(enc_hook=pack_ids)
_decoder: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


class Child:
    """A worker process whose standard input is a socket to us, nameless and its alone.

    Its end tells the worker that we are gone. Nothing is shared with an earlier worker, so no
    stale message can arrive.
    """

    def __init__(self, process: asyncio.subprocess.Process, wire: Wire) -> None:
        self._process = process
        self._wire = wire
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def spawn(cls, command: Sequence[str], config: WorkerConfig) -> Child:
        """Start `command` and hand it its launch line. Raises OSError if that fails."""
        line = msgspec.json.encode(Launch(parent=os.getpid(), config=config)) + b"\n"
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                ours.sendall(line)
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=theirs.fileno(), env=environment(os.environ)
                )
            except BaseException:
                ours.close()
                raise
        return cls(process, Wire(ours))

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        """Never waits. A message to a worker that is gone is dropped: its end is noticed."""
        if not self._wire.send(_encoder.encode(message)):
            self._loop.add_writer(self._wire.fileno(), self._flush)

    def _flush(self) -> None:
        if self._wire.flush():
            self._loop.remove_writer(self._wire.fileno())

    def listen(self, on_readable: Callable[[], None]) -> None:
        """Call back whenever there may be messages, until closed."""
        self._loop.add_reader(self._wire.fileno(), on_readable)

    def receive(self) -> Iterator[FromWorker]:
        """The messages that have come. Raises msgspec.DecodeError on what is not a message."""
        try:
            for message in self._wire.receive():
                yield _decoder.decode(message)
        except EOFError:  # it has ended, which `wait` tells
            self._loop.remove_reader(self._wire.fileno())

    async def wait(self) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        return await self._process.wait()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """Kill it if it lives, and let go of everything."""
        self._loop.remove_reader(self._wire.fileno())
        self._loop.remove_writer(self._wire.fileno())
        self.kill()
        await self._process.wait()
        self._wire.close()


def describe_exit(status: int) -> str:
    """How a process ended, as the end of a sentence."""
    if status >= 0:
        return f"it exited with status {status}"
    try:
        return f"it was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was killed by signal {-status}"
