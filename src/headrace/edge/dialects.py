"""OpenAI's two endpoints that generate, each as a `Dialect`."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from headrace.access.principal import Principal
from headrace.api.openai.chat import ChatRequest, parse_chat_request
from headrace.api.openai.completions import CompletionRequest, parse_completion_request
from headrace.edge.plan import Plan, Planner
from headrace.routing.needs import Needs


@dataclass(frozen=True, slots=True)
class Chat:
    """`POST /v1/chat/completions`."""

    max_choices: int

    def parse(self, body: bytes) -> ChatRequest:
        return parse_chat_request(body, max_choices=self.max_choices)

    def needs(self, request: ChatRequest) -> Needs:
        return Needs(tools=request.calls is not None)

    async def plan(
        self, planner: Planner, request: ChatRequest, id: UUID, principal: Principal
    ) -> Plan:
        return await planner.chat(request, id, principal)


@dataclass(frozen=True, slots=True)
class Completion:
    """`POST /v1/completions`."""

    max_choices: int

    def parse(self, body: bytes) -> CompletionRequest:
        return parse_completion_request(body, max_choices=self.max_choices)

    def needs(self, request: CompletionRequest) -> Needs:
        return Needs()

    async def plan(
        self, planner: Planner, request: CompletionRequest, id: UUID, principal: Principal
    ) -> Plan:
        return await planner.completion(request, id, principal)
