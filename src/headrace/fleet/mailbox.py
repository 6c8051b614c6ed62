"""The outputs of one request on their way to one reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.engine.output import Finish, FinishReason, Output, TokenLogprob
from headrace.engine.request import GenerationRequest


class Mailbox:
    """Holds what its reader has not taken yet, merged into one Output.

    Writing never waits, and a reader that lags costs at most its own generation. The first
    output with a `finish` ends it; whatever is put later is dropped, so a reader sees exactly
    one ending whoever races to write it. watcher: is told of each output as it comes.
    """

    def __init__(self, request: GenerationRequest) -> None:
        self.id = request.id
        self.finish: Finish | None = None
        self.watcher: Callable[[Output], None] | None = None
        self._prompt_tokens = len(request.prompt)
        self._completion_tokens = 0
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._tokens: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._prompt_logprobs: list[TokenLogprob] | None = None
        self._filled = asyncio.Event()
        self._drained = False

    def put(self, output: Output) -> bool:
        """Add an output of the request; False if it had ended already."""
        if self.finish is not None:
            return False
        if output.text:
            self._texts.append(output.text)
        self._thoughts.append(output.reasoning)
        self._tokens += output.tokens
        self._logprobs += output.logprobs or ()
        self._prompt_logprobs = output.prompt_logprobs or self._prompt_logprobs
        self._completion_tokens += len(output.tokens)
        self.finish = output.finish
        self._filled.set()
        if self.watcher is not None:
            self.watcher(output)
        return True

    def end(self, reason: FinishReason, error: str | None = None) -> bool:
        """End it from outside the engine, with the counts known so far."""
        counts = Finish(
            reason=reason,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            error=error,
        )
        return self.put(Output(id=self.id, finish=counts))

    async def get(self) -> Output | None:
        """All that came since the last call, waiting until there is something; None after
        the end. For one reader."""
        if self._drained:
            return None
        await self._filled.wait()
        self._filled.clear()
        self._drained = self.finish is not None
        output = Output(
            id=self.id,
            text="".join(self._texts),
            reasoning="".join(self._thoughts),
            tokens=self._tokens,
            logprobs=self._logprobs or None,
            prompt_logprobs=self._prompt_logprobs,
            finish=self.finish,
        )
        self._texts, self._tokens, self._logprobs = [], [], []
        self._thoughts, self._prompt_logprobs = [], None
        return output
