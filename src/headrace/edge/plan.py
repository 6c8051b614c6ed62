"""From a request in an API's words to generations: render, tokenise, and see that it fits."""

from __future__ import annotations

import random
import secrets
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from headrace.access.principal import Principal
from headrace.access.tenant import ServiceClass
from headrace.api.anthropic.answer import MessageAnswer
from headrace.api.anthropic.request import CountRequest, MessagesRequest
from headrace.api.calls import NO_PARAMETERS, Calls, Declared
from headrace.api.openai.answer import Answer, Head
from headrace.api.openai.chat import ChatRequest
from headrace.api.openai.chat_answer import ChatAnswer
from headrace.api.openai.completion_answer import CompletionAnswer
from headrace.api.openai.completions import DEFAULT_MAX_TOKENS, CompletionRequest, Prompt
from headrace.api.openai.errors import ApiError, ContextLengthExceeded, invalid_request
from headrace.api.openai.parameters import GenerationParameters
from headrace.api.openai.response_format import Form
from headrace.edge.admission import Admission
from headrace.edge.answer_grammar import answer_grammar
from headrace.edge.aside import Aside
from headrace.edge.grammars import GrammarDesk
from headrace.edge.published import PublishedPrefixes
from headrace.edge.sampling import sampling_params
from headrace.edge.service_class import served_class, tier_of
from headrace.edge.services import Compiler, Decoder, Prompts, ServedModel
from headrace.edge.spoken import Spoken
from headrace.edge.template_variables import message_variables, switched_off, template_variables
from headrace.engine.request import (
    GenerationRequest,
    SamplingParams,
    StopConditions,
    TokenIds,
)
from headrace.grammar import Grammar
from headrace.models.sampling import SamplingDefaults
from headrace.text.cuts import Unbroken
from headrace.text.infill import NoInfill
from headrace.text.reasoning import Thinking
from headrace.text.template import TemplateError
from headrace.text.tokenizer import TextTooLong
from headrace.text.tools.parser import CallParser
from headrace.turns.threads import Steps, in_one


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to generate and how to answer. generations: the choices of each prompt in turn,
    `per_prompt` of them, of which the best `kept` are answered. logprobs: whether with theirs.
    bounded: whether the caller said how many tokens may be generated. spoken: how to tell what
    a choice says."""

    generations: list[GenerationRequest]
    per_prompt: int
    kept: int
    logprobs: bool
    answer: Answer
    stream: bool
    bounded: bool
    spoken: Callable[[], Spoken] = lambda: Spoken(None)

    @property
    def prompt_tokens(self) -> int:
        """Each prompt counted once."""
        return sum(len(first.prompt) for first in self.generations[:: self.per_prompt])

    @property
    def longest_prompt(self) -> int:
        """In tokens; it decides whether the request is a long one."""
        return max(len(generation.prompt) for generation in self.generations)

    @property
    def output_tokens(self) -> int:
        """The most that may be generated, over all choices."""
        return sum(generation.stopping.max_tokens for generation in self.generations)


class Sized(msgspec.Struct):
    """A tokenised prompt, how many tokens may follow it, how to tell thoughts among them, which
    control tokens are text there, and which ids end the answer beside those of a turn's end."""

    ids: TokenIds
    max_tokens: int
    thinking: Thinking | None = None
    controls: dict[int, str] = {}
    ends: frozenset[int] = frozenset()


class Planner:
    """Raises ApiError or BodyError for everything that can be refused before a queue or the
    engine is touched."""

    def __init__(
        self,
        model: ServedModel,
        prompts: Prompts,
        decoder: Decoder,
        compiler: Compiler,
        aside: Aside,
        published_texts: Iterable[str] = (),
    ) -> None:
        """published_texts: prompts whose cache all tenants share."""
        self._model = model
        self._prompts = prompts
        self._decoder = decoder
        self._published = PublishedPrefixes.of_texts(published_texts, prompts)
        self._aside = aside
        self._desk = GrammarDesk(compiler)

    def open(self) -> None:
        """Have ready, beside everything else, what requests will need."""
        self._desk.open()
        self._aside.threads.submit(None, in_one(self._prompts.prepare))

    def close(self) -> None:
        self._desk.close()

    async def chat(self, request: ChatRequest, id: UUID, admission: Admission) -> Plan:
        principal = admission.principal
        service_class = served_class(request.service_tier, principal.tenant.service_class)
        form, limit = request.form, request.token_limit
        calls, variables, ids = await admission.prepare(
            self._conversation(
                request,
                limit or 1,
                lambda: template_variables(request, self._prompts, reasons=self._model.reasoning),
                stopped=admission.given_up,
                opens=request.opens,
            )
        )
        prompt = self._sized(
            ids, limit, request.token_limit_param, principal, begun=request.continues
        )
        prompt.thinking = _unless_off(prompt.thinking, variables)
        grammar = await self._free_or_formed(admission, prompt, form, calls)
        return Plan(
            generations=self._generations(
                request,
                sampling_params(request, self._model.sampling, request.alternatives),
                [prompt],
                request.n,
                id,
                principal,
                grammar,
            ),
            per_prompt=request.n,
            kept=request.n,
            logprobs=request.logprobs,
            answer=ChatAnswer(
                self._head(f"chatcmpl-{id.hex}", service_class),
                include_usage=request.include_usage,
                names=self._decoder.token,
                may_call=calls is not None,
            ),
            stream=request.stream,
            bounded=limit is not None,
            spoken=lambda: self._spoken(calls, _call_id),
        )

    async def messages(self, request: MessagesRequest, id: UUID, admission: Admission) -> Plan:
        principal = admission.principal
        service_class = served_class(request.service_tier, principal.tenant.service_class)
        drawing = request.parameters
        calls, variables, ids = await self._message(request, admission, request.max_tokens)
        prompt = self._sized(
            ids, request.max_tokens, "max_tokens", principal, begun=request.continues
        )
        prompt.thinking = _unless_off(prompt.thinking, variables)
        grammar = await self._free_or_formed(admission, prompt, request.form, calls, request.budget)
        return Plan(
            generations=self._generations(
                drawing,
                sampling_params(drawing, self._model.sampling, None),
                [prompt],
                1,
                id,
                principal,
                grammar,
            ),
            per_prompt=1,
            kept=1,
            logprobs=False,
            answer=MessageAnswer(self._head(f"msg_{id.hex}", service_class), len(prompt.ids)),
            stream=request.stream,
            bounded=True,
            spoken=lambda: self._spoken(calls, _tool_use_id),
        )

    async def message_ids(self, request: CountRequest, admission: Admission) -> array[int]:
        """The prompt that a request's messages make."""
        return (await self._message(request, admission, 1))[2]

    async def _message(
        self, request: CountRequest, admission: Admission, limit: int
    ) -> tuple[Calls | None, Mapping[str, object], array[int]]:
        return await admission.prepare(
            self._conversation(
                request,
                limit,
                lambda: message_variables(request, self._prompts, reasons=self._model.reasoning),
                stopped=admission.given_up,
            )
        )

    def _conversation(
        self,
        request: ChatRequest | CountRequest,
        limit: int,
        variables_of: Callable[[], Mapping[str, object]],
        *,
        stopped: Callable[[], bool],
        opens: bool = True,
    ) -> Steps[tuple[Calls | None, Mapping[str, object], array[int]]]:
        """The calls that a request allows, the variables that it gives the template, and the
        prompt of its messages as the template reads them. limit: tokens wanted behind them.
        stopped: whether nobody waits for it any more. opens: the prompt ends with the beginning of
        the answer's message."""
        room = self._model.context_length
        # Each of them has a token at least, and some have more.
        fewest = max(len(request.messages), request.turns * self._prompts.least_a_message)
        if fewest > room:
            raise self._too_long(fewest, limit, "messages")
        calls, messages, variables = request.calls, request.conversation(), variables_of()
        tools = None if calls is None else [_declared(known) for known in calls.functions]
        yield None
        steps = self._prompts.conversation(
            messages,
            tools=tools,
            variables=variables,
            add_generation_prompt=opens,
            continue_final=request.continues,
            most=room,
            stopped=stopped,
        )
        ids = yield from self._bounded(steps, limit, "messages")
        return calls, variables, ids

    def _bounded(self, steps: Steps[array[int]], limit: int, param: str) -> Steps[array[int]]:
        """A prompt that fits the context. limit: tokens wanted behind it. param: where it is from.
        Raises ApiError."""
        try:
            return (yield from steps)
        except TemplateError as error:
            raise invalid_request(
                f"The model's chat template refuses these messages: {error}", param
            ) from None
        except TextTooLong as error:
            raise self._too_long(error.at_least, limit, param, exact=error.exact) from None
        except Unbroken as error:
            raise invalid_request(f"Invalid '{param}': {error}.", param) from None

    def _too_long(self, tokens: int, limit: int, param: str, *, exact: bool = False) -> ApiError:
        """exact: there are no more tokens than these; else there are at least so many."""
        return ContextLengthExceeded(self._model.context_length, tokens, limit, param, exact=exact)

    def _sized(
        self, ids: array[int], limit: int | None, param: str, principal: Principal, *, begun: bool
    ) -> Sized:
        """A conversation's prompt with as many tokens behind it as `param` says. begun: the answer
        has begun in the prompt, so no thoughts come before it."""
        model = self._model
        room = model.context_length
        default = principal.default_max_tokens or model.default_max_tokens
        prompt = _fit(ids, limit, room, default=default, params=("messages", param))
        prompt.thinking = None if begun else self._prompts.thinking(ids)
        return prompt

    async def _free_or_formed(
        self,
        admission: Admission,
        prompt: Sized,
        form: Form | None,
        calls: Calls | None,
        budget: int | None = None,
    ) -> Grammar | None:
        """What the answer to a conversation must follow, if it must follow anything. budget:
        tokens that its thoughts may take."""
        if calls is not None:
            prompt.controls = self._markers()
        elif form is None and budget is None:
            return None
        return await self._desk.check(
            lambda: answer_grammar(form, calls, prompt.thinking, self._prompts, budget),
            "tools" if form is None else form.param,
            admission,
        )

    def _markers(self) -> dict[int, str]:
        """Control tokens that mark calls."""
        ids = {text: self._prompts.control(text) for text in self._prompts.tool_format.markers}
        return {id: text for text, id in ids.items() if id is not None}

    def _spoken(self, calls: Calls | None, new_id: Callable[[], str]) -> Spoken:
        if calls is None:
            return Spoken(None)
        names = [calls.functions[index].name for index in calls.callable]
        parser = CallParser(self._prompts.tool_format, names, new_id)
        return Spoken(parser, must=calls.must, named=calls.named)

    async def completion(self, request: CompletionRequest, id: UUID, admission: Admission) -> Plan:
        principal = admission.principal
        service_class = served_class(request.service_tier, principal.tenant.service_class)
        form = request.form
        sized, echoes = await admission.prepare(self._texts(request))
        grammar = None
        if form is not None:
            grammar = await self._desk.check(
                lambda: answer_grammar(form, None, None, self._prompts), form.param, admission
            )
        return Plan(
            generations=self._generations(
                request,
                _completion_sampling(request, self._model.sampling),
                sized,
                request.candidates,
                id,
                principal,
                grammar,
            ),
            per_prompt=request.candidates,
            kept=request.n,
            logprobs=request.logprobs is not None,
            answer=CompletionAnswer(
                self._head(f"cmpl-{id.hex}", service_class),
                include_usage=request.include_usage,
                names=self._decoder.token,
                echoes=echoes,
                alternatives=bool(request.logprobs),
            ),
            stream=request.stream,
            bounded=True,
        )

    def _texts(self, request: CompletionRequest) -> Steps[tuple[list[Sized], list[str]]]:
        """The prompts, and what is echoed of them before each choice."""
        room = self._model.context_length
        sized: list[Sized] = []
        echoes: list[str] = []
        for param, prompt in request.prompts():
            ids = yield from self._completion_ids(request, prompt, param)
            params = (param, "max_tokens")
            fitted = _fit(ids, request.max_tokens, room, default=DEFAULT_MAX_TOKENS, params=params)
            if request.suffix:
                fitted.ends = self._prompts.infill_ends
            sized.append(fitted)
            if request.echo:
                text = prompt if isinstance(prompt, str) else self._decoder.decode(prompt)
                echoes += [text] * request.n
            yield None
        return sized, echoes

    def _completion_ids(
        self, request: CompletionRequest, prompt: Prompt, param: str
    ) -> Steps[array[int]]:
        room, limit = self._model.context_length, request.max_tokens or 1
        if not isinstance(prompt, str):
            if len(prompt) > room:
                raise self._too_long(len(prompt), limit, param)
            self._check_ids(prompt, param)
            return array("i", prompt)
        if request.suffix:
            try:
                steps = self._prompts.gap(prompt, request.suffix, most=room)
                return (yield from self._bounded(steps, limit, param))
            except NoInfill as error:
                raise invalid_request(f"Invalid 'suffix': {error}.", "suffix") from None
        steps = self._prompts.text(prompt, special=request.parse_special, most=room)
        ids = yield from self._bounded(steps, limit, param)
        if not ids and self._decoder.bos_id is not None:
            return array("i", [self._decoder.bos_id])
        if not ids:
            raise invalid_request(
                f"Invalid '{param}': it is empty, and this model has no token to begin with.", param
            )
        return ids

    def _check_ids(self, ids: Collection[int], param: str) -> None:
        size = self._model.vocab_size
        if ids and (highest := max(ids)) >= size:
            raise invalid_request(
                f"Invalid '{param}': token id {highest} is outside the vocabulary of {size}.", param
            )

    def _generations(
        self,
        request: GenerationParameters,
        sampling: SamplingParams,
        prompts: list[Sized],
        choices: int,
        id: UUID,
        principal: Principal,
        grammar: Grammar | None,
    ) -> list[GenerationRequest]:
        """So many choices of each prompt. With a seed a prompt is answered as it would be in a
        request of its own; without one equal prompts are answered independently."""
        self._check_ids(request.stop_token_ids, "stop_token_ids")
        self._check_ids(request.logit_bias, "logit_bias")
        arrival = time.time()
        generations: list[GenerationRequest] = []
        for prompt in prompts:
            if request.min_tokens > prompt.max_tokens:
                raise invalid_request(
                    f"Invalid 'min_tokens': it is more than the {prompt.max_tokens} tokens "
                    "that may be generated.",
                    "min_tokens",
                )
            published = self._published.shared_by(prompt.ids)
            seed = random.getrandbits(63) if request.seed is None else request.seed
            for choice in range(choices):
                generations.append(
                    GenerationRequest(
                        id=f"{id.hex}-{len(generations)}",
                        prompt=prompt.ids,
                        sampling=replace(sampling, seed=seed, choice=choice),
                        stopping=_stopping(request, prompt),
                        namespace=f"tenant {principal.tenant.id}",
                        published=published,
                        arrival=arrival,
                        thinking=prompt.thinking,
                        grammar=grammar,
                        controls=prompt.controls,
                    )
                )
        return generations

    def _head(self, id: str, service_class: ServiceClass) -> Head:
        model = self._model
        return Head(
            id=id,
            created=int(time.time()),
            model=model.name,
            fingerprint=model.fingerprint,
            service_tier=tier_of(service_class),
        )


def _unless_off(thinking: Thinking | None, variables: Mapping[str, object]) -> Thinking | None:
    """How thoughts are told apart; None if the template's variables switch them off and the prompt
    has not begun them. Then an answer begins at its first token."""
    if thinking is not None and not thinking.begun and switched_off(variables):
        return None
    return thinking


def _fit(
    ids: array[int], asked: int | None, room: int, *, default: int, params: tuple[str, str]
) -> Sized:
    """How many tokens may follow the prompt: what was asked, which must fit, or as much of
    the default as does. At least one must. params: the prompt's field and the limit's."""
    rest = room - len(ids)
    if rest < (asked or 1):
        param = params[0] if rest < 1 else params[1]
        raise ContextLengthExceeded(room, len(ids), asked or 1, param)
    return Sized(ids, min(default, rest) if asked is None else asked)


def _declared(known: Declared) -> dict[str, Any]:
    """A function as templates know it."""
    function = {"name": known.name, "description": known.description}
    declared: dict[str, Any] = {k: v for k, v in function.items() if v is not None}
    declared["parameters"] = known.parameters or NO_PARAMETERS
    return {"type": "function", "function": declared}


def _call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _tool_use_id() -> str:
    return f"toolu_{secrets.token_hex(12)}"


def _completion_sampling(request: CompletionRequest, defaults: SamplingDefaults) -> SamplingParams:
    """Candidates are ranked by logprobs, so they need them where the caller does not."""
    logprobs = request.logprobs
    if logprobs is None and request.candidates > request.n:
        logprobs = 0
    scored = request.echo and request.logprobs is not None
    return replace(sampling_params(request, defaults, logprobs), prompt_logprobs=scored)


def _stopping(request: GenerationParameters, prompt: Sized) -> StopConditions:
    ends = () if request.ignore_eos else sorted(prompt.ends)
    return StopConditions(
        max_tokens=prompt.max_tokens,
        min_tokens=request.min_tokens,
        stop=request.stops,
        stop_token_ids=(*request.stop_token_ids, *ends),
        ignore_eos=request.ignore_eos,
    )
