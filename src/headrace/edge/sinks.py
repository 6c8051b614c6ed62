"""Where the outputs of a job go: into a stream as they come, or into one answer at the end."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.api.openai.answer import Answer, Choice
from headrace.edge.stream import EventStream
from headrace.engine.output import Output, TokenLogprob


class StreamSink:
    """Writes each output of a choice as events; the stream starts when the first has a place."""

    def __init__(self, stream: EventStream, answer: Answer) -> None:
        self._stream = stream
        self._answer = answer
        self._opened: set[int] = set()

    async def placed(self) -> None:
        if not self._stream.started:
            await self._stream.start()

    async def deliver(self, index: int, output: Output) -> None:
        events = b""
        if index not in self._opened:
            self._opened.add(index)
            events = self._answer.opening(index)
        logprobs = text_logprobs(output)
        if output.text or logprobs:
            events += self._answer.delta(index, output.text, logprobs)
        if output.finish is not None and output.finish.reason in ("stop", "length"):
            events += self._answer.closing(index, output.finish.reason)
        if events:
            await self._stream.write(events)


class WholeSink:
    """Gathers the outputs of `count` choices."""

    def __init__(self, count: int) -> None:
        self._texts: list[list[str]] = [[] for _ in range(count)]
        self._logprobs: list[list[TokenLogprob] | None] = [None] * count
        self._reasons = [""] * count

    async def placed(self) -> None:
        """Nothing is sent before the end."""

    async def deliver(self, index: int, output: Output) -> None:
        self._texts[index].append(output.text)
        logprobs = text_logprobs(output)
        if logprobs is not None:
            self._logprobs[index] = [*(self._logprobs[index] or ()), *logprobs]
        if output.finish is not None:
            self._reasons[index] = output.finish.reason

    def choices(self) -> list[Choice]:
        rows = zip(self._texts, self._logprobs, self._reasons, strict=True)
        return [
            Choice(index, "".join(texts), reason, logprobs)
            for index, (texts, logprobs, reason) in enumerate(rows)
        ]


def text_logprobs(output: Output) -> Sequence[TokenLogprob] | None:
    """The log probabilities of tokens that are part of the text: an id that ended it is not."""
    finish = output.finish
    if output.logprobs is None or finish is None or finish.reason != "stop":
        return output.logprobs
    return output.logprobs if isinstance(finish.matched, str) else output.logprobs[:-1]
