"""The request of `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from headrace.api.body import BodyError
from headrace.api.calls import Calls
from headrace.api.openai.messages import (
    UNSUPPORTED_IN_MESSAGE,
    AssistantMessage,
    Message,
    ToolMessage,
    template_messages,
)
from headrace.api.openai.neutral import CHAT
from headrace.api.openai.parameters import (
    Count,
    GenerationParameters,
    Text64,
    Text512,
    check_parameters,
)
from headrace.api.openai.response_format import Form, ResponseFormat, asked_form
from headrace.api.openai.tools import ToolChoice, Tools, asked_calls
from headrace.api.reader import RequestReader, unsupported

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ChatRequest(GenerationParameters, frozen=True, kw_only=True):
    """max_completion_tokens is the newer name of max_tokens. top_logprobs: alternatives
    reported beside each token; only with logprobs. What follows is for the model's template,
    and honoured only where that asks for it: chat_template_kwargs are variables of it by their
    own names. add_generation_prompt, continue_final_message: vLLM's; see `opens` and
    `continues`."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Count | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    reasoning_effort: Effort | None = None
    thinking_budget: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    chat_template_kwargs: (
        Annotated[dict[Text64, bool | int | float | Text512], Meta(max_length=16)] | None
    ) = None
    response_format: ResponseFormat | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    @property
    def continues(self) -> bool:
        """Whether the answer continues the last message: where it is the assistant's, unless the
        request says otherwise."""
        if self.continue_final_message is not None:
            return self.continue_final_message
        return isinstance(self.messages[-1], AssistantMessage) and not self.add_generation_prompt

    @property
    def opens(self) -> bool:
        """Whether the prompt ends with the beginning of a message of the assistant's; of no
        meaning where the answer continues one."""
        return self.add_generation_prompt is not False

    @property
    def token_limit(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def token_limit_param(self) -> str:
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    def alternatives(self) -> int | None:
        """None: no logprobs; else how many alternatives beside each token."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def form(self) -> Form | None:
        """Raises BodyError."""
        return asked_form(self, self.response_format)

    @property
    def calls(self) -> Calls | None:
        """Raises BodyError."""
        return asked_calls(self.tools, self.tool_choice, self.parallel_tool_calls)

    @property
    def turns(self) -> int:
        """How many messages are no results of calls. Each is one for the template, too."""
        return sum(not isinstance(message, ToolMessage) for message in self.messages)

    def conversation(self) -> list[dict[str, Any]]:
        """The messages as a template reads them. Raises BodyError for what is not text, and for
        calls and their results that do not belong together."""
        return template_messages(self.messages)


_reader = RequestReader(ChatRequest, CHAT)


def parse_chat_request(body: bytes, *, max_choices: int) -> ChatRequest:
    """Raises BodyError naming the field that is missing, wrong, unknown or unsupported."""
    try:
        request = _reader.read(body)
    except BodyError as error:
        if refused := UNSUPPORTED_IN_MESSAGE.match(error.param or ""):
            raise unsupported(refused[0]) from None
        raise
    check_parameters(request, max_choices=max_choices)
    if request.top_logprobs and not request.logprobs:
        raise BodyError("'top_logprobs' is only allowed when 'logprobs' is true.", "top_logprobs")
    if request.continues:
        _check_continued(request)
    both = (request.max_tokens, request.max_completion_tokens)
    if None not in both and both[0] != both[1]:
        raise BodyError(
            "'max_tokens' and 'max_completion_tokens' are two names of one limit, "
            "but they were given two values.",
            "max_tokens",
        )
    return request


def _check_continued(request: ChatRequest) -> None:
    """Raises BodyError where the last message can't be continued."""
    param, last = "continue_final_message", request.messages[-1]
    if request.add_generation_prompt:
        raise BodyError(
            f"Invalid '{param}': the answer continues the last message, or "
            "'add_generation_prompt' opens another one; both can't be true.",
            param,
        )
    if not isinstance(last, AssistantMessage):
        raise BodyError(f"Invalid '{param}': the last message is not the assistant's.", param)
    if last.tool_calls:
        param = f"messages[{len(request.messages) - 1}].tool_calls"
        raise BodyError(
            f"Invalid '{param}': the last message's calls have no results, and behind calls it "
            "can't be continued.",
            param,
        )
    if (form := request.form) is not None:
        raise BodyError(
            f"Invalid '{form.param}': the answer continues the last message, so it can't have a "
            "form of its own. With 'continue_final_message' false it is a message of its own.",
            form.param,
        )
