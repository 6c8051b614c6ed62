"""What one HTTP request costs: opened before the first frame, closed before the last."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from headrace.access.price import Price
from headrace.access.principal import Principal
from headrace.api.openai.usage import Usage, make_usage
from headrace.dispatch.errors import Refused
from headrace.edge.exchange import Exchange
from headrace.edge.job import Job
from headrace.edge.plan import Plan
from headrace.edge.services import Books, Opening, ServedModel
from headrace.ledger.charge import Ending, OpenCharge
from headrace.observe.meter import Generated, Meter
from headrace.quotas.demand import Consumed


@dataclass(slots=True)
class Charge:
    """The charge of a job's request, whatever becomes of the job. price: of its model, if that
    has one. opening: once it was opened. closed: what it came to, once it is closed."""

    books: Books
    meter: Meter
    id: UUID
    plan: Plan
    job: Job
    price: Price | None
    exchange: Exchange
    opening: Opening = field(init=False)
    closed: Usage | None = None

    async def open(self, principal: Principal, model: ServedModel, endpoint: str) -> None:
        """Write down that it begins. The work may begin when this returns; nothing of the answer
        may leave before the opening was awaited. Raises DatabaseUnavailable."""
        self.exchange.facts.update(model=model.name, charge=str(self.id))
        self.opening = self.books.open(
            OpenCharge(
                id=self.id,
                tenant_id=principal.tenant.id,
                key_id=principal.key_id,
                request_id=self.exchange.id,
                model=model.name,
                model_version=model.version,
                endpoint=endpoint,
                stream=self.plan.stream,
                price_id=None if self.price is None else self.price.id,
            )
        )
        if self.books.late:
            await self.opening.committed()

    async def close(self) -> None:
        """Write down what was generated and how it ended; both are committed when this returns.
        If the opening failed there is nothing to close, and this raises what it raised."""
        self.closed = usage = self.usage()
        ending = self.ending()
        self.exchange.facts.update(
            ending=ending,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
        )
        self.meter.generated(self.exchange.model, self._generated(usage))
        if self.opening.failed:
            await self.opening.committed()
        await self.books.close(
            self.id,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.prompt_tokens_details.cached_tokens,
            reasoning_tokens=usage.completion_tokens_details.reasoning_tokens,
            cost=self._cost(usage),
            ending=ending,
        )

    def consumed(self, *, refused: bool = False) -> Consumed:
        """refused: we turned the request away."""
        usage = self.usage()
        return Consumed(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost=self._cost(usage),
            refused=refused,
        )

    def _cost(self, usage: Usage) -> int:
        """Nano-units of money."""
        if self.price is None:
            return 0
        return self.price.cost(
            prompt=usage.prompt_tokens,
            cached=usage.prompt_tokens_details.cached_tokens,
            completion=usage.completion_tokens,
        )

    def usage(self) -> Usage:
        """Tokens so far. A prompt counts once for all its choices, as far as the one that came
        furthest had it computed or found it in the cache; a request that failed by our fault
        before its first token counts nothing.
        """
        if self.closed is not None:
            return self.closed
        choices, step = self.job.choices, self.plan.per_prompt
        prompt = cached = completion = reasoning = 0
        for choice in choices:
            completion += choice.completion_tokens
            reasoning += choice.reasoning_tokens
        for first in range(0, len(choices), step):
            read = [choice.prefilled for choice in choices[first : first + step]]
            tokens = max(each.tokens for each in read)
            prompt += tokens
            # What one choice computes, the others find in the cache.
            cached += tokens - max(each.tokens - each.cached for each in read)
        if self.job.fault is not None and completion == 0:
            return make_usage(0, 0, 0)
        return make_usage(prompt, completion, cached, reasoning)

    def _generated(self, usage: Usage) -> Generated:
        choices = self.job.choices
        steps = sum(max(choice.completion_tokens - 1, 0) for choice in choices if choice.finish)
        firsts = [choice.first_token for choice in choices if choice.first_token is not None]
        return Generated(
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.prompt_tokens_details.cached_tokens,
            completion_tokens=usage.completion_tokens,
            first_token=min(firsts) - self.exchange.arrived if firsts else None,
            per_token=sum(choice.decoding for choice in choices) / steps if steps else None,
        )

    def ending(self) -> Ending:
        """How the request ended as a whole."""
        if self.job.fault is not None:
            begun = any(choice.running is not None for choice in self.job.choices)
            return "rejected" if isinstance(self.job.fault, Refused) and not begun else "error"
        reasons = {c.finish.reason if c.finish else "cancelled" for c in self.job.choices}
        for reason in ("cancelled", "length"):
            if reason in reasons:
                return reason
        return "stop"
