"""The outputs of one request on their way to one reader."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from headrace.engine.output import Finish, FinishReason, Output, Prefilled, TokenLogprob
from headrace.engine.request import GenerationRequest

MOST_UNREAD = 32
"""Outputs that wait one by one for their reader; what comes beyond is merged into one."""


class Mailbox:
    """Holds what its reader has not taken yet.

    Writing never waits, and a reader that lags costs at most its own generation. The first
    output with a `finish` ends it; whatever is put later is dropped, so a reader sees exactly
    one ending whoever races to write it. watcher: is told of each output as it comes.
    """

    def __init__(self, request: GenerationRequest) -> None:
        self.id = request.id
        self.finish: Finish | None = None
        self.watcher: Callable[[Output], None] | None = None
        self._request = request
        self._generated = array("i")
        self._prefilled = Prefilled(0, 0)
        self._reasoning_tokens = 0
        self._unread: deque[Output] = deque()
        self._rest: Rest | None = None
        self._reader: asyncio.Future[None] | None = None
        self._drained = False

    @property
    def pending(self) -> bool:
        """Whether the next `get` returns at once."""
        return bool(self._unread)

    def put(self, output: Output) -> bool:
        """Add an output of the request; False if it had ended already."""
        if self.finish is not None:
            return False
        self._generated.extend(output.tokens)
        self._prefilled = output.prefilled or self._prefilled
        if output.tokens:
            self._reasoning_tokens = output.reasoning_tokens
        elif _tells_progress_alone(output):
            return True
        self.finish = output.finish
        if self._rest is None and len(self._unread) < MOST_UNREAD:
            self._unread.append(output)
        else:
            self._rest = self._rest or Rest()
            self._rest.add(output)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        if self.watcher is not None:
            self.watcher(output)
        return True

    def end(self, reason: FinishReason, error: str | None = None) -> bool:
        """End it from outside the engine, with the counts known so far."""
        counts = Finish(
            reason=reason,
            prompt_tokens=self._prefilled.tokens,
            completion_tokens=len(self._generated),
            cached_tokens=self._prefilled.cached,
            reasoning_tokens=self._reasoning_tokens,
            error=error,
        )
        return self.put(Output(id=self.id, finish=counts))

    @property
    def rest(self) -> GenerationRequest:
        """What an engine is asked so that it begins, or goes on behind what another has done."""
        if not self._generated and not self._prefilled.tokens:
            return self._request
        return replace(self._request, generated=self._generated or None, prefilled=self._prefilled)

    async def get(self) -> Output | None:
        """The next output, waiting until there is one; None after the end. For one reader."""
        if self._drained:
            return None
        if not self._unread:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        output = self._unread.popleft()
        if not self._unread and self._rest is not None:
            self._unread.append(self._rest.merged(self.id))
            self._rest = None
        self._drained = output.finish is not None
        return output


def _tells_progress_alone(output: Output) -> bool:
    """Whether there is nothing in it for the reader. It has no tokens."""
    return output.finish is None and output.prompt_logprobs is None and output.prefilled is not None


class Rest:
    """Outputs in a row, as parts of the one that they become."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._tokens: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._prompt_logprobs: list[TokenLogprob] | None = None
        self._finish: Finish | None = None

    def add(self, output: Output) -> None:
        self._texts.append(output.text)
        self._thoughts.append(output.reasoning)
        self._tokens += output.tokens
        self._logprobs += output.logprobs or ()
        self._prompt_logprobs = output.prompt_logprobs or self._prompt_logprobs
        self._finish = output.finish

    def merged(self, id: str) -> Output:
        return Output(
            id=id,
            text="".join(self._texts),
            reasoning="".join(self._thoughts),
            tokens=self._tokens,
            logprobs=self._logprobs or None,
            prompt_logprobs=self._prompt_logprobs,
            finish=self._finish,
        )
