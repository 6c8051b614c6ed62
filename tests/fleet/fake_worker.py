"""A worker process whose engine is a toy: one token a step for everyone, and faults on demand.

The model path says how the worker starts; the first prompt token of a request, what happens
when its first step comes.
"""

from __future__ import annotations

import os
import sys
import time

from headrace.engine.output import Finish, FinishReason, Output, Prefilled
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.fleet.config import WorkerConfig
from headrace.fleet.host import run
from headrace.fleet.messages import Ready

HANG, CRASH, DIE, DIE_LATE = 666, 667, 668, 669
LATE = 20
BLOCKS = 64


class ToyEngine:
    """Generates "t0 t1 t2 …" until max_tokens; a block a request."""

    def __init__(self) -> None:
        self._live: dict[str, GenerationRequest] = {}
        self._counts: dict[str, int] = {}
        self._ended: list[Output] = []
        self._steps = 0

    @property
    def has_work(self) -> bool:
        return bool(self._live or self._ended)

    def submit(self, request: GenerationRequest) -> None:
        self._live[request.id] = request
        self._counts[request.id] = len(request.generated or ())

    def cancel(self, request_id: str) -> None:
        if request_id in self._live:
            self._ended.append(self._finish(request_id, "cancelled"))

    def step(self) -> list[Output]:
        self._steps += 1
        time.sleep(0.0002)
        outputs, self._ended = self._ended, []
        for request in list(self._live.values()):
            count = self._counts[request.id]
            self._misbehave(request.prompt[0], count)
            self._counts[request.id] += 1
            prefilled = Prefilled(len(request.prompt), 2)
            output = Output(
                id=request.id,
                text=f"t{count} ",
                tokens=[count],
                reasoning_tokens=1,
                prefilled=prefilled,
            )
            outputs.append(output)
            if count + 1 == request.stopping.max_tokens:
                outputs.append(self._finish(request.id, "length"))
        return outputs

    def status(self) -> EngineStatus:
        return EngineStatus(
            steps=self._steps,
            running=len(self._live),
            waiting=0,
            blocks_total=BLOCKS,
            blocks_free=BLOCKS - len(self._live),
            blocks_cached=0,
            evictions=0,
            step_budget=1,
            hit_tokens=0,
            proposed_tokens=0,
            accepted_tokens=0,
            preemptions=0,
            generated_tokens=0,
            forced_tokens=0,
            prefilled_tokens=0,
        )

    def _finish(self, request_id: str, reason: FinishReason) -> Output:
        prompt = self._live.pop(request_id).prompt
        count = self._counts.pop(request_id)
        finish = Finish(reason=reason, prompt_tokens=len(prompt), completion_tokens=count)
        return Output(id=request_id, finish=finish)

    def _misbehave(self, token: int, count: int) -> None:
        if token == DIE_LATE and count >= LATE:
            os._exit(9)
        if token == HANG:
            time.sleep(3600)
        if token == CRASH:
            raise RuntimeError("a kernel went wrong")
        if token == DIE:
            os._exit(9)


def open_toy(config: WorkerConfig) -> tuple[ToyEngine, Ready]:
    if config.path == "broken":
        raise ValueError("broken.gguf: tensor 'output' ends beyond the file")
    if config.path == "silent":
        time.sleep(3600)
    if config.path.endswith(".slow") and not _first_time(config.path):
        time.sleep(6)
    if config.path.endswith(".once") and not _first_time(config.path):
        raise ValueError("the model file has vanished")
    ready = Ready(
        model=config.model,
        version=config.version,
        isa="toy",
        threads=1,
        blocks=BLOCKS,
        max_sequences=config.max_sequences,
        max_step_tokens=512,
        context_length=4096,
        memory=1 << 30,
        pid=os.getpid(),
    )
    return ToyEngine(), ready


def _first_time(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(run(open_toy))
