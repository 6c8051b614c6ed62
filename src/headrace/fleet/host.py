"""The life of a worker: launch, then messages in, steps, outputs out."""

from __future__ import annotations

from collections.abc import Callable
from io import FileIO
from socket import socket
from typing import Protocol

import structlog

from headrace.engine.output import Output
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.fleet.channel import STDIN, Channel, ParentGone, read_launch
from headrace.fleet.config import WorkerConfig
from headrace.fleet.messages import (
    Cancel,
    Failed,
    Outputs,
    Probe,
    Ready,
    Shutdown,
    Status,
    Submit,
)
from headrace.fleet.process import configure_log, name_process, tie_to_parent

log = structlog.get_logger("headrace.worker")

EXIT_FAILED = 3
"""Exit status of a worker that has sent a Failed."""


class HostedEngine(Protocol):
    """What the loop needs of an engine (`engine.loop.Engine`)."""

    @property
    def has_work(self) -> bool: ...

    def submit(self, request: GenerationRequest) -> None: ...

    def cancel(self, request_id: str) -> None: ...

    def step(self) -> list[Output]: ...

    def status(self) -> EngineStatus: ...


OpenEngine = Callable[[WorkerConfig], tuple[HostedEngine, Ready]]


def run(open_engine: OpenEngine) -> int:
    """Be a worker: read the launch line, open an engine and host it; the exit status.

    Whatever goes wrong is told to the parent in a sentence before the process ends.
    """
    try:
        launch = read_launch(FileIO(STDIN, closefd=False))
    except ParentGone:
        return 0
    tie_to_parent(launch.parent)
    name_process("headrace-engine")
    configure_log(launch.config.log_level)
    channel = Channel(socket(fileno=STDIN))
    try:
        return _serve(open_engine, launch.config, channel)
    except ParentGone:
        log.info("parent_gone")
        return 0
    finally:
        channel.close()


def _serve(open_engine: OpenEngine, config: WorkerConfig, channel: Channel) -> int:
    try:
        engine, ready = open_engine(config)
    except Exception as error:
        log.exception("engine_not_opened")
        channel.send(Failed(str(error) or repr(error)))
        return EXIT_FAILED
    channel.send(ready)
    try:
        host(engine, channel)
    except ParentGone:
        raise
    except Exception as error:
        # Only its kind leaves this process: callers are told, and the text of an unforeseen
        # error may hold what another caller sent.
        log.exception("engine_fault")
        channel.send(Failed(f"a fault in the engine ({type(error).__name__})"))
        return EXIT_FAILED
    return 0


def host(engine: HostedEngine, channel: Channel) -> None:
    """Serve the engine until a Shutdown. Raises ParentGone, and whatever the engine raises.

    Messages are taken between steps, so that an answer to a probe proves that steps end.
    All outputs of a step leave as one message. Without work it sleeps until a message comes.
    """
    while True:
        for message in channel.receive(wait=not engine.has_work):
            match message:
                case Submit():
                    for request in message.requests:
                        engine.submit(request)
                case Cancel():
                    for request_id in message.ids:
                        engine.cancel(request_id)
                case Probe():
                    channel.send(Status(message.nonce, engine.status()))
                case Shutdown():
                    return
        if engine.has_work:
            outputs = engine.step()
            if outputs:
                channel.send(Outputs(outputs))
