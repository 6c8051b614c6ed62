"""A dispatcher over a supervisor of the test's own making: no process, every event by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from headrace.dispatch.dispatcher import Dispatcher
from headrace.dispatch.policy import usual_policies
from headrace.engine.output import Finish, FinishReason, Output
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.engine.status import EngineStatus
from headrace.fleet.errors import WorkerUnavailable
from headrace.fleet.mailbox import Mailbox
from headrace.fleet.supervisor import WorkerStatus


class HandSupervisor:
    """Stands in for `fleet.supervisor.Supervisor`: the test plays the worker."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.capacity = 0
        self.ready = None
        self.mailboxes: dict[str, Mailbox] = {}
        self.submitted: list[str] = []
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[str] = []
        self.stopped = False

    @property
    def live(self) -> int:
        return len(self.mailboxes)

    async def start(self) -> None:
        self.up(2)

    async def stop(self) -> None:
        self.stopped = True
        self.down("shutting down")

    def submit(self, request: GenerationRequest) -> Mailbox:
        if request.id in self.mailboxes:
            raise ValueError(f"request {request.id} is live already")
        self.submitted.append(request.id)
        self.requests.append(request)
        mailbox = self.mailboxes[request.id] = Mailbox(request)
        return mailbox

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    async def probe(self, timeout: float) -> EngineStatus:
        raise WorkerUnavailable("nobody is there")

    def status(self) -> WorkerStatus:
        state = "ready" if self.capacity else "starting"
        return WorkerStatus(state=state, ready=None, starts=1, failures=0, last_error=None)

    def up(self, capacity: int) -> None:
        self.capacity = capacity
        self.on_change()

    def down(self, reason: str = "killed") -> None:
        self.capacity = 0
        mailboxes, self.mailboxes = self.mailboxes, {}
        for mailbox in mailboxes.values():
            mailbox.end("error", reason)
        self.on_change()

    def say(self, request_id: str, *tokens: int) -> None:
        text = "".join(f"{token} " for token in tokens)
        self.mailboxes[request_id].put(Output(id=request_id, text=text, tokens=list(tokens)))

    def finish(self, request_id: str, reason: FinishReason = "stop", tokens: int = 0) -> None:
        finish = Finish(reason=reason, prompt_tokens=1, completion_tokens=tokens)
        self.mailboxes.pop(request_id).put(Output(id=request_id, finish=finish))
        self.on_change()


@pytest.fixture
def worker() -> HandSupervisor:
    return HandSupervisor()


@pytest.fixture
async def dispatcher(worker: HandSupervisor) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(worker, usual_policies(3))  # type: ignore[arg-type]
    await dispatcher.start()
    yield dispatcher
    await dispatcher.stop(grace=0)


def request(name: str) -> GenerationRequest:
    return GenerationRequest(
        id=name, prompt=[1], sampling=SamplingParams(), stopping=StopConditions(max_tokens=9)
    )
