"""The requests of `POST /v1/messages` and `POST /v1/messages/count_tokens`."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.anthropic.blocks import SystemContent
from headrace.api.anthropic.messages import AssistantMessage, Message, template_messages
from headrace.api.anthropic.output_config import MessagesEffort, OutputConfig
from headrace.api.anthropic.thinking import Thinking, ThinkingEnabled
from headrace.api.anthropic.tools import Choice, CustomTools, asked_calls
from headrace.api.body import BodyError
from headrace.api.cache_control import CacheControl
from headrace.api.calls import Calls
from headrace.api.openai.errors import thread_not_found
from headrace.api.openai.parameters import Count, GenerationParameters, Stop
from headrace.api.openai.response_format import Form
from headrace.api.openai.route import RouteLimits
from headrace.api.reader import Neutral, RequestReader

MAX_STOPS = 16

NEUTRAL: Neutral = {
    "billing_policy": (),
    "compaction": (),
    "container": (),
    "diagnostics": (),
    "fallback_credit_token": (),
    "fallbacks": ("[]",),
    "inference_geo": (),
    "mcp_servers": ("[]",),
    "speed": ('"standard"',),
    "user_profile_id": (),
    "workspace_id": (),
}
"""Values by which Anthropic's parameters change nothing. docs/leniency.md has them too; a test
holds both together."""


class Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """user_id: checked and not kept."""

    user_id: Annotated[str, Meta(max_length=256)] | None = None


class KeepAll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`all` as an object."""

    type: Literal["all"]


class ClearThinking(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="clear_thinking_20251015",
):
    """keep: all thoughts stay where they are, as they do anyway."""

    keep: Literal["all"] | KeepAll


class ContextManagement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is taken out of the messages before they are read: nothing."""

    edits: list[ClearThinking] | None = None


class ContinueThread(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="continue"
):
    """Asks for what an earlier request's messages were."""

    previous_message_id: str


class CreateThread(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="create"
):
    """Asks that the messages are kept. They are not: each request has its whole conversation."""


class CountRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a prompt is made of. cache_control: as on a block. context_management, thread: ones
    that change nothing. route: beyond Anthropic, what the model must be."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    system: SystemContent | None = None
    tools: CustomTools | None = None
    tool_choice: Choice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None
    context_management: ContextManagement | None = None
    thread: CreateThread | ContinueThread | None = None
    route: RouteLimits | None = None

    @property
    def effort(self) -> MessagesEffort | None:
        return None if self.output_config is None else self.output_config.effort

    @property
    def budget(self) -> int | None:
        """Tokens that thoughts may take."""
        thinking = self.thinking
        return thinking.budget_tokens if isinstance(thinking, ThinkingEnabled) else None

    @property
    def calls(self) -> Calls | None:
        """Raises BodyError."""
        return asked_calls(self.tools, self.tool_choice)

    @property
    def continues(self) -> bool:
        """Whether the answer continues the last message: where it is the assistant's."""
        return isinstance(self.messages[-1], AssistantMessage)

    @property
    def turns(self) -> int:
        """How many messages the template gets at least that are no results of calls: the
        assistant's, where those that follow each other are one."""
        spoken = [isinstance(message, AssistantMessage) for message in self.messages]
        return sum(now and not before for before, now in pairwise([False, *spoken]))

    def conversation(self) -> list[dict[str, Any]]:
        """The messages as a template reads them. Raises BodyError."""
        return template_messages(self.system, self.messages)


class MessagesRequest(CountRequest, frozen=True, kw_only=True):
    """Ranges are Anthropic's."""

    max_tokens: Count
    stop_sequences: Annotated[list[Stop], Meta(max_length=MAX_STOPS)] = []
    stream: bool = False
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] = "auto"

    @property
    def form(self) -> Form | None:
        return None if self.output_config is None else self.output_config.form

    @property
    def parameters(self) -> GenerationParameters:
        """How tokens are drawn, and when it ends."""
        return GenerationParameters(
            model=self.model,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            stop=self.stop_sequences,
        )


_messages = RequestReader(MessagesRequest, NEUTRAL)
_count = RequestReader(CountRequest, NEUTRAL)


def parse_messages_request(body: bytes) -> MessagesRequest:
    """Raises BodyError naming the field that is missing, wrong, unknown or unsupported."""
    request = _messages.read(body)
    _check_thread(request)
    _check_continued(request)
    if (request.budget or 0) >= request.max_tokens:
        raise BodyError(
            "Invalid 'thinking.budget_tokens': it must be less than 'max_tokens'.",
            "thinking.budget_tokens",
        )
    return request


def parse_count_request(body: bytes) -> CountRequest:
    """Raises BodyError, as `parse_messages_request`."""
    request = _count.read(body)
    _check_thread(request)
    _check_continued(request)
    return request


def _check_thread(request: CountRequest) -> None:
    """Raises ApiError for a thread that is to be continued. Anthropic's client then sends the
    whole conversation."""
    if isinstance(request.thread, ContinueThread):
        raise thread_not_found()


def _check_continued(request: CountRequest) -> None:
    """Raises BodyError for what an answer that continues a message can't have."""
    if not request.continues:
        return
    for param, given in (
        ("thinking", request.budget),
        ("output_config.format", request.output_config and request.output_config.format),
    ):
        if given is not None:
            raise BodyError(
                f"Invalid '{param}': the last message is the assistant's, so the answer continues "
                "it and has no thoughts and no form of its own.",
                param,
            )
