"""One worker process and the socket to it, seen from its parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import zmq

from headrace.fleet.config import Launch, WorkerConfig
from headrace.fleet.messages import FromWorker, ToWorker, pack_ids

_encoder = msgspec.msgpack.Encoder(enc_hook=pack_ids)
_decoder: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


class Child:
    """A worker process that talks over a Unix socket in a directory only we can enter.

    Its standard input stays open for as long as we live: its end tells the worker that we
    are gone. Nothing is shared with an earlier worker, so no stale message can arrive.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, socket: zmq.Socket[bytes], directory: Path
    ) -> None:
        self._process = process
        self._socket = socket
        self._directory = directory
        self._loop = asyncio.get_running_loop()
        self._on_readable: Callable[[], None] | None = None

    @classmethod
    async def spawn(cls, command: Sequence[str], config: WorkerConfig) -> Child:
        """Start `command` and hand it its launch line. Raises OSError if that fails."""
        directory = Path(tempfile.mkdtemp(prefix="headrace-"))
        socket = zmq.Context().socket(zmq.PAIR)
        try:
            socket.set_hwm(0)
            endpoint = f"ipc://{directory / 'worker'}"
            socket.bind(endpoint)
            launch = Launch(endpoint=endpoint, parent=os.getpid(), config=config)
            line = msgspec.json.encode(launch) + b"\n"
            process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        except BaseException:
            _discard(socket, directory)
            raise
        assert process.stdin is not None
        process.stdin.write(line)
        return cls(process, socket, directory)

    @property
    def pid(self) -> int:
        return self._process.pid

    def connected(self) -> None:
        """The worker has reached us: nobody else may, and no file is left if we are killed.

        The socket stays bound, since libzmq ends what it accepted together with the listener.
        """
        shutil.rmtree(self._directory, ignore_errors=True)

    def send(self, message: ToWorker) -> None:
        """Never waits. A message to a worker that is gone is dropped: its end is noticed."""
        with contextlib.suppress(zmq.Again):
            self._socket.send(_encoder.encode(message), zmq.NOBLOCK)
        # Sending may swallow the signal that something came, which is given only once.
        if self._on_readable is not None and self._readable():
            self._loop.call_soon(self._on_readable)

    def listen(self, on_readable: Callable[[], None]) -> None:
        """Call back whenever there may be messages, until closed. The callback must take all.

        The socket's own descriptor in the event loop: a step's message costs half of what it
        does as a future of zmq.asyncio.
        """
        self._on_readable = on_readable
        self._loop.add_reader(self._socket.fileno(), on_readable)
        self._loop.call_soon(on_readable)

    def receive(self) -> Iterator[FromWorker]:
        """The messages that have come. Raises msgspec.DecodeError on what is not a message."""
        while not self._socket.closed:
            try:
                message = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield _decoder.decode(message)

    def _readable(self) -> bool:
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    async def wait(self) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        return await self._process.wait()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """Kill it if it lives, and let go of everything."""
        self.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._loop.remove_reader(self._socket.fileno())
        _discard(self._socket, self._directory)


def describe_exit(status: int) -> str:
    """How a process ended, as the end of a sentence."""
    if status >= 0:
        return f"it exited with status {status}"
    try:
        return f"it was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was killed by signal {-status}"


def _discard(socket: zmq.Socket[bytes], directory: Path) -> None:
    context = socket.context
    socket.close(linger=0)
    context.term()
    shutil.rmtree(directory, ignore_errors=True)
