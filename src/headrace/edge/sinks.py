"""Where the outputs of a job go: into a stream as they come, or into one answer at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.api.openai.answer import Answer, Choice
from headrace.edge.plan import Plan
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
            events = self._answer.opening(index, output.prompt_logprobs)
        logprobs = text_logprobs(output)
        if output.text or output.reasoning or logprobs:
            events += self._answer.delta(index, output.text, logprobs, output.reasoning)
        if output.finish is not None and output.finish.reason in ("stop", "length"):
            events += self._answer.closing(index, output.finish.reason)
        if events:
            await self._stream.write(events)


class WholeSink:
    """Gathers the outputs of a plan's choices."""

    def __init__(self, plan: Plan) -> None:
        count = len(plan.generations)
        self._plan = plan
        self._texts: list[list[str]] = [[] for _ in range(count)]
        self._thoughts: list[list[str]] = [[] for _ in range(count)]
        self._logprobs: list[list[TokenLogprob] | None] = [None] * count
        self._prompt_logprobs: list[list[TokenLogprob] | None] = [None] * count
        self._means = [Mean() for _ in range(count)]
        self._reasons = [""] * count

    async def placed(self) -> None:
        """Nothing is sent before the end."""

    async def deliver(self, index: int, output: Output) -> None:
        self._texts[index].append(output.text)
        self._thoughts[index].append(output.reasoning)
        logprobs = text_logprobs(output)
        if logprobs is not None:
            self._logprobs[index] = [*(self._logprobs[index] or ()), *logprobs]
        for entry in output.logprobs or ():
            self._means[index].add(entry.logprob or 0.0)
        self._prompt_logprobs[index] = output.prompt_logprobs or self._prompt_logprobs[index]
        if output.finish is not None:
            self._reasons[index] = output.finish.reason

    def choices(self) -> list[Choice]:
        """All of them or, where a prompt has more than are kept, those whose tokens, the one
        that ended them included, have the highest mean logprob, best first."""
        everything, size = range(len(self._texts)), self._plan.per_prompt
        groups = [everything[first : first + size] for first in everything[::size]]
        kept = [index for group in groups for index in self._best(group)]
        return [self._choice(place, index) for place, index in enumerate(kept)]

    def _best(self, group: range) -> Sequence[int]:
        if self._plan.kept == len(group):
            return group
        ranked = sorted(group, key=lambda index: -self._means[index].value)
        return ranked[: self._plan.kept]

    def _choice(self, place: int, index: int) -> Choice:
        return Choice(
            place,
            "".join(self._texts[index]),
            self._reasons[index],
            self._logprobs[index] if self._plan.logprobs else None,
            self._prompt_logprobs[index],
            "".join(self._thoughts[index]),
        )


@dataclass(slots=True)
class Mean:
    """Of numbers as they come; 0 of none."""

    total: float = 0.0
    count: int = 0

    def add(self, number: float) -> None:
        self.total += number
        self.count += 1

    @property
    def value(self) -> float:
        return self.total / max(self.count, 1)


def text_logprobs(output: Output) -> Sequence[TokenLogprob] | None:
    """The log probabilities of tokens that are part of the text: an id that ended it is not."""
    finish = output.finish
    if output.logprobs is None or finish is None or finish.reason != "stop":
        return output.logprobs
    return output.logprobs if isinstance(finish.matched, str) else output.logprobs[:-1]
