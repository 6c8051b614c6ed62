"""Where the outputs of a job go: into a stream as they come, or into one answer at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.api.openai.answer import Call, Choice
from headrace.edge.plan import Plan
from headrace.edge.spoken import Spoken
from headrace.edge.stream import EventStream
from headrace.engine.output import Output, TokenLogprob


class StreamSink:
    """Writes each output of a choice as events; the stream starts when the first has a place.
    Events of outputs that came together leave together."""

    def __init__(self, stream: EventStream, plan: Plan) -> None:
        self._stream = stream
        self._answer = plan.answer
        self._new_spoken = plan.spoken
        self._spoken: dict[int, Spoken] = {}
        self._held: list[bytes] = []

    async def placed(self) -> None:
        if not self._stream.started:
            await self._stream.start()

    async def deliver(self, index: int, output: Output, *, more: bool) -> None:
        self._held.append(self._events(index, output))
        if more:
            return
        events = b"".join(self._held)
        self._held.clear()
        if events:
            await self._stream.write(events)

    def _events(self, index: int, output: Output) -> bytes:
        events = b""
        if index not in self._spoken:
            self._spoken[index] = self._new_spoken()
            events = self._answer.opening(index, output.prompt_logprobs)
        logprobs = text_logprobs(output)
        spoken = self._spoken[index]
        said = spoken.take(output)
        if said.content or said.calls or output.reasoning or logprobs:
            events += self._answer.delta(
                index, said.content, logprobs, output.reasoning, said.calls
            )
        if output.finish is not None and output.finish.reason in ("stop", "length"):
            events += self._answer.closing(index, spoken.finish_reason(output.finish.reason))
        return events


class WholeSink:
    """Gathers the outputs of a plan's choices."""

    def __init__(self, plan: Plan) -> None:
        count = len(plan.generations)
        self._plan = plan
        self._spoken = [plan.spoken() for _ in range(count)]
        self._calls: list[list[Call]] = [[] for _ in range(count)]
        self._texts: list[list[str]] = [[] for _ in range(count)]
        self._thoughts: list[list[str]] = [[] for _ in range(count)]
        self._logprobs: list[list[TokenLogprob] | None] = [None] * count
        self._prompt_logprobs: list[list[TokenLogprob] | None] = [None] * count
        self._means = [Mean() for _ in range(count)]
        self._reasons = [""] * count

    async def placed(self) -> None:
        """Nothing is sent before the end."""

    async def deliver(self, index: int, output: Output, *, more: bool) -> None:
        said = self._spoken[index].take(output)
        self._texts[index].append(said.content)
        for delta in said.calls:
            if delta.id is not None and delta.name is not None:
                self._calls[index].append(Call(delta.id, delta.name))
            self._calls[index][-1].arguments.append(delta.arguments)
        self._thoughts[index].append(output.reasoning)
        logprobs = text_logprobs(output)
        if logprobs is not None:
            self._logprobs[index] = [*(self._logprobs[index] or ()), *logprobs]
        for entry in output.logprobs or ():
            self._means[index].add(entry.logprob or 0.0)
        self._prompt_logprobs[index] = output.prompt_logprobs or self._prompt_logprobs[index]
        if output.finish is not None:
            self._reasons[index] = self._spoken[index].finish_reason(output.finish.reason)

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
            self._calls[index],
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
    if isinstance(finish.matched, str) or (finish.matched is None and output.logprobs[-1].piece):
        return output.logprobs  # a stop text, or a document that was complete
    return output.logprobs[:-1]
