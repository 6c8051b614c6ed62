"""One worker process and the socket to it, seen from its parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import zmq
import zmq.asyncio

from headrace.fleet.config import Launch, WorkerConfig
from headrace.fleet.messages import FromWorker, ToWorker

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


class Child:
    """A worker process that talks over a Unix socket in a directory only we can enter.

    Its standard input stays open for as long as we live: its end tells the worker that we
    are gone. Nothing is shared with an earlier worker, so no stale message can arrive.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        socket: zmq.asyncio.Socket,
        context: zmq.asyncio.Context,
        directory: Path,
    ) -> None:
        self._process = process
        self._socket = socket
        self._context = context
        self._directory = directory

    @classmethod
    async def spawn(cls, command: Sequence[str], config: WorkerConfig) -> Child:
        """Start `command` and hand it its launch line. Raises OSError if that fails."""
        directory = Path(tempfile.mkdtemp(prefix="headrace-"))
        context = zmq.asyncio.Context()
        socket = context.socket(zmq.PAIR)
        try:
            socket.set_hwm(0)
            socket.linger = 0
            endpoint = _endpoint(directory)
            socket.bind(endpoint)
            process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
            child = cls(process, socket, context, directory)
        except BaseException:
            _discard(socket, context, directory)
            raise
        launch = Launch(endpoint=endpoint, parent=os.getpid(), config=config)
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(launch) + b"\n")
        return child

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
        sending = self._socket.send(_encoder.encode(message), zmq.NOBLOCK)
        sent = cast("asyncio.Future[None]", sending)  # With NOBLOCK it is done by now.
        if (error := sent.exception()) is not None and not isinstance(error, zmq.Again):
            raise error

    async def receive(self) -> FromWorker:
        """The worker's next message. Raises msgspec.DecodeError if it cannot be read."""
        return _decoder.decode(await self._socket.recv())

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
        _discard(self._socket, self._context, self._directory)


def describe_exit(status: int) -> str:
    """How a process ended, as the end of a sentence."""
    if status >= 0:
        return f"it exited with status {status}"
    try:
        return f"it was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was killed by signal {-status}"


def _endpoint(directory: Path) -> str:
    return f"ipc://{directory / 'worker'}"


def _discard(socket: zmq.asyncio.Socket, context: zmq.asyncio.Context, directory: Path) -> None:
    socket.close(linger=0)
    context.term()
    shutil.rmtree(directory, ignore_errors=True)
