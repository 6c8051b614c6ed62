"""A worker whose model costs nothing: what is left is what the service itself costs.

It speaks the worker's protocol in a process of its own, as the real one does. Every live request
gets a token a step until its limit; HEADRACE_TEST_PACE is the seconds between steps.
"""

from __future__ import annotations

import os
import sys
import time

from headrace.engine.output import Finish, Output
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.fleet.config import WorkerConfig
from headrace.fleet.host import run
from headrace.fleet.messages import Ready

WORD = " word"


class FakeEngine:
    """`engine.loop.Engine` without a model."""

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._next = 0.0
        self._left: dict[str, tuple[GenerationRequest, int]] = {}
        self._cancelled: list[str] = []
        self._steps = 0

    @property
    def has_work(self) -> bool:
        return bool(self._left)

    def submit(self, request: GenerationRequest) -> None:
        done = len(request.generated or ())
        self._left[request.id] = request, request.stopping.max_tokens - done

    def cancel(self, request_id: str) -> None:
        if request_id in self._left:
            self._cancelled.append(request_id)

    def step(self) -> list[Output]:
        if self._pace:
            now = time.perf_counter()
            self._next = max(self._next + self._pace, now - 10 * self._pace)
            if self._next > now:
                time.sleep(self._next - now)
        self._steps += 1
        outputs = []
        for id in self._cancelled:
            request, left = self._left.pop(id)
            finish = _finish(request, "cancelled", request.stopping.max_tokens - left)
            outputs.append(Output(id=id, finish=finish))
        self._cancelled.clear()
        for id, (request, left) in list(self._left.items()):
            if left > 1:
                self._left[id] = request, left - 1
                outputs.append(Output(id=id, text=WORD, tokens=[1]))
            else:
                del self._left[id]
                finish = _finish(request, "length", request.stopping.max_tokens)
                outputs.append(Output(id=id, text=WORD, tokens=[1], finish=finish))
        return outputs

    def status(self) -> EngineStatus:
        numbers = dict.fromkeys(EngineStatus.__struct_fields__, 0)
        return EngineStatus(**numbers | {"steps": self._steps, "running": len(self._left)})


def _finish(request: GenerationRequest, reason: str, generated: int) -> Finish:
    return Finish(
        reason=reason,  # type: ignore[arg-type]
        prompt_tokens=len(request.prompt),
        completion_tokens=generated,
    )


def open_engine(config: WorkerConfig) -> tuple[FakeEngine, Ready]:
    ready = Ready(
        model=config.model,
        version=config.version,
        isa="none",
        threads=1,
        blocks=1 << 20,
        max_sequences=config.max_sequences,
        max_step_tokens=config.max_step_tokens,
        context_length=config.context_length or 8192,
        memory=0,
        pid=os.getpid(),
    )
    return FakeEngine(float(os.environ.get("HEADRACE_TEST_PACE", "0"))), ready


if __name__ == "__main__":
    sys.exit(run(open_engine))
