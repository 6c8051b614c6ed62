"""Where the outputs of a job go: into a stream as they come, or into one answer at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.api.openai.answer import Call, Choice
from headrace.edge.plan import Plan
from headrace.edge.services import Opening
from headrace.edge.spoken import Spoken
from headrace.edge.stream import EventStream
from headrace.engine.output import Finish, Output, TokenLogprob


class StreamSink:
    """Writes each output of a choice as events; the stream starts when the first has a place and
    the charge's opening is in the books. Events of outputs that came together leave together."""

    def __init__(self, stream: EventStream, opening: Opening, plan: Plan) -> None:
        self._stream = stream
        self._opening = opening
        self._answer = plan.answer
        self._new_spoken = plan.spoken
        self._spoken: dict[int, Spoken] = {}
        self._held: list[bytes] = []

    async def placed(self) -> None:
        await self._opening.committed()
        if not self._stream.started:
            await self._stream.start(self._answer.beginning())

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
            reason = spoken.finish_reason(output.finish.reason)
            events += self._answer.closing(index, reason, _stop_text(output.finish))
        return events


class WholeSink:
    """Gathers the outputs of a plan's choices."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._gathered = [Gathered(plan.spoken()) for _ in plan.generations]

    async def placed(self) -> None:
        """Nothing is sent before the end."""

    async def deliver(self, index: int, output: Output, *, more: bool) -> None:
        self._gathered[index].add(output)

    def choices(self) -> list[Choice]:
        """All of them or, where a prompt has more than are kept, those whose tokens, the one
        that ended them included, have the highest mean logprob, best first."""
        kept, size = self._gathered, self._plan.per_prompt
        if self._plan.kept < size:
            groups = [kept[first : first + size] for first in range(0, len(kept), size)]
            kept = [choice for group in groups for choice in self._best(group)]
        logprobs = self._plan.logprobs
        return [choice.whole(index, logprobs=logprobs) for index, choice in enumerate(kept)]

    def _best(self, group: list[Gathered]) -> list[Gathered]:
        return sorted(group, key=lambda choice: -choice.mean.value)[: self._plan.kept]


class Gathered:
    """One choice, as far as it has come."""

    def __init__(self, spoken: Spoken) -> None:
        self.mean = Mean()
        self._spoken = spoken
        self._calls: list[Call] = []
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._logprobs: list[TokenLogprob] | None = None
        self._prompt_logprobs: list[TokenLogprob] | None = None
        self._length = 0
        self._reason = ""
        self._stop: str | None = None

    def add(self, output: Output) -> None:
        said = self._spoken.take(output)
        self._texts.append(said.content)
        for delta in said.calls:
            if delta.id is not None and delta.name is not None:
                self._calls.append(Call(delta.id, delta.name, at=self._length + delta.at))
            self._calls[-1].arguments.append(delta.arguments)
        self._length += len(said.content)
        self._thoughts.append(output.reasoning)
        logprobs = text_logprobs(output)
        if logprobs is not None:
            if self._logprobs is None:
                self._logprobs = []
            self._logprobs.extend(logprobs)
        for entry in output.logprobs or ():
            self.mean.add(entry.logprob or 0.0)
        self._prompt_logprobs = output.prompt_logprobs or self._prompt_logprobs
        if output.finish is not None:
            self._reason = self._spoken.finish_reason(output.finish.reason)
            self._stop = _stop_text(output.finish)

    def whole(self, index: int, *, logprobs: bool) -> Choice:
        return Choice(
            index,
            "".join(self._texts),
            self._reason,
            self._logprobs if logprobs else None,
            self._prompt_logprobs,
            "".join(self._thoughts),
            self._calls,
            self._stop,
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


def _stop_text(finish: Finish) -> str | None:
    return finish.matched if isinstance(finish.matched, str) else None


def text_logprobs(output: Output) -> Sequence[TokenLogprob] | None:
    """The log probabilities of tokens that are part of the text: an id that ended it is not."""
    finish = output.finish
    if output.logprobs is None or finish is None or finish.reason != "stop":
        return output.logprobs
    if isinstance(finish.matched, str) or (finish.matched is None and output.logprobs[-1].piece):
        return output.logprobs  # a stop text, or a document that was complete
    return output.logprobs[:-1]
