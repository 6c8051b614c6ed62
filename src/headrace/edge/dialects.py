"""OpenAI's two endpoints that generate, each as a `Dialect`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from uuid import UUID

from headrace.api.openai.chat import ChatRequest, parse_chat_request
from headrace.api.openai.completions import CompletionRequest, parse_completion_request
from headrace.api.openai.route import MaxPrice, RouteLimits
from headrace.edge.admission import Admission
from headrace.edge.plan import Plan, Planner
from headrace.routing.needs import NO_WISHES, Needs, Wishes


@dataclass(frozen=True, slots=True)
class Chat:
    """`POST /v1/chat/completions`."""

    max_choices: int
    prompts = 1

    def parse(self, body: bytes) -> ChatRequest:
        return parse_chat_request(body, max_choices=self.max_choices)

    def needs(self, request: ChatRequest) -> Needs:
        effort = request.reasoning_effort not in (None, "none")
        return Needs(
            tools=request.calls is not None,
            reasoning=effort or request.thinking_budget is not None,
            tokens=request.token_limit or 0,
            wishes=wishes_of(request.route),
        )

    async def plan(
        self, planner: Planner, request: ChatRequest, id: UUID, admission: Admission
    ) -> Plan:
        return await planner.chat(request, id, admission)


@dataclass(frozen=True, slots=True)
class Completion:
    """`POST /v1/completions`."""

    max_choices: int
    prompts = 2

    def parse(self, body: bytes) -> CompletionRequest:
        return parse_completion_request(body, max_choices=self.max_choices)

    def needs(self, request: CompletionRequest) -> Needs:
        return Needs(tokens=request.max_tokens or 0, wishes=wishes_of(request.route))

    async def plan(
        self, planner: Planner, request: CompletionRequest, id: UUID, admission: Admission
    ) -> Plan:
        return await planner.completion(request, id, admission)


def wishes_of(limits: RouteLimits | None) -> Wishes:
    """What a request demands of its model."""
    if limits is None:
        return NO_WISHES
    price = limits.max_price or MaxPrice()
    return Wishes(
        max_input_price=_nano(price.input),
        max_output_price=_nano(price.output),
        capabilities=frozenset(limits.capabilities),
        context_length=limits.context_length or 0,
    )


def _nano(amount: float | None) -> int | None:
    """Nano-units a token, rounded down: of an amount for a million tokens."""
    return None if amount is None else math.floor(round(amount * 1000, 6))
