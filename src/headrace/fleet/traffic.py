"""What a worker owes: the live requests and the questions it has not answered."""

from __future__ import annotations

import asyncio

from headrace.engine.output import FinishReason, Output
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.fleet.errors import WorkerUnavailable
from headrace.fleet.mailbox import Mailbox
from headrace.fleet.messages import Status
from headrace.fleet.probation import Probation


class Traffic:
    """Routes what a worker says to whoever waits for it, and tells them all when it is gone."""

    def __init__(self) -> None:
        self._mailboxes: dict[str, Mailbox] = {}
        self._probation = Probation()
        self._questions: dict[int, asyncio.Future[EngineStatus]] = {}

    @property
    def live(self) -> int:
        """Requests that have not ended."""
        return len(self._mailboxes)

    @property
    def owed(self) -> bool:
        """Whether anyone waits for the worker."""
        return bool(self._mailboxes or self._questions)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._mailboxes

    def open(self, request: GenerationRequest) -> Mailbox:
        """Expect outputs of a request, which is `due` sooner or later."""
        mailbox = self._mailboxes[request.id] = Mailbox(request)
        self._probation.open(request.id)
        return mailbox

    def due(self) -> list[GenerationRequest]:
        """What is to be sent now to the worker that runs: new requests, and what is left of those
        that a dead worker had."""
        return [self._mailboxes[id].rest for id in self._probation.due()]

    def is_sent(self, request_id: str) -> bool:
        """Whether the worker that runs has this live request."""
        return request_id in self._probation

    def deliver(self, outputs: list[Output]) -> bool:
        """Whether a request ended by this. Outputs of a request that has ended already are
        dropped: its end is what the caller has seen."""
        ended = False
        for output in outputs:
            mailbox = self._mailboxes.get(output.id)
            if mailbox is None:
                continue
            mailbox.put(output)
            if output.finish is not None:
                del self._mailboxes[output.id]
                self._probation.end(output.id)
                ended = True
            elif output.tokens:
                self._probation.note(output.id)
        return ended

    def ask(self, nonce: int) -> asyncio.Future[EngineStatus]:
        """Expect the answer to a probe; `forget` it when nobody waits any longer."""
        question: asyncio.Future[EngineStatus] = asyncio.get_running_loop().create_future()
        self._questions[nonce] = question
        return question

    def answer(self, status: Status) -> None:
        question = self._questions.get(status.nonce)
        if question is not None and not question.done():
            question.set_result(status.reading)

    def forget(self, nonce: int) -> None:
        del self._questions[nonce]

    def end(self, request_id: str, reason: FinishReason, error: str | None = None) -> None:
        """End a live request from here, while no worker has it."""
        self._probation.end(request_id)
        self._mailboxes.pop(request_id).end(reason, error)

    def lose(self, reason: str, *, final: bool) -> None:
        """The worker is gone: every question fails, and every request that may not go on ends as
        an error. reason: what callers are told. final: no request goes on."""
        lost = self._probation.lose()
        for id in [*self._mailboxes] if final else lost:
            self.end(id, "error", reason)
        for question in self._questions.values():
            if not question.done():
                question.set_exception(WorkerUnavailable(reason))
