"""What the HTTP application needs of the rooms behind it, as the edge sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from headrace.access.principal import Principal
from headrace.dispatch.dispatcher import DispatchStatus
from headrace.engine.output import Output
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.grammar import Grammar
from headrace.ledger.charge import Ending, OpenCharge
from headrace.text.reasoning import Thinking
from headrace.text.tools.format import ToolFormat


class Running(Protocol):
    """A generation that has a place (`dispatch.generation.Generation`)."""

    def cancel(self) -> None: ...

    def __aiter__(self) -> AsyncIterator[Output]: ...


class Places(Protocol):
    """`dispatch.dispatcher.Dispatcher`."""

    async def place(self, request: GenerationRequest) -> Running: ...

    def status(self) -> DispatchStatus: ...

    async def probe(self, timeout: float = 5.0) -> EngineStatus: ...


class Keys(Protocol):
    """`access.authenticator.Authenticator`."""

    async def authenticate(self, raw_key: str) -> Principal: ...


class Books(Protocol):
    """`ledger.ledger.Ledger`."""

    async def open(self, charge: OpenCharge) -> None: ...

    async def close(
        self,
        charge_id: UUID,
        *,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int,
        ending: Ending,
    ) -> None: ...


class Prompts(Protocol):
    """`text.prompt.PromptBuilder`: the model's template and tokenizer."""

    @property
    def tool_format(self) -> ToolFormat: ...

    @property
    def several_calls(self) -> bool: ...

    @property
    def variables(self) -> frozenset[str]: ...

    def compared(self, variable: str) -> frozenset[str]: ...

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = ...,
        variables: Mapping[str, object] = ...,
    ) -> list[int]: ...

    def control(self, text: str) -> int | None: ...

    def thinking(self, prompt: list[int]) -> Thinking | None: ...

    def completion(self, text: str) -> list[int]: ...


class Compiler(Protocol):
    """`grammar.compiler.Compiler`."""

    def prepare(self) -> None: ...

    def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> object: ...


class Decoder(Protocol):
    """What the edge asks of a tokenizer (`text.tokenizer.Tokenizer`)."""

    @property
    def bos_id(self) -> int | None: ...

    def decode(self, ids: list[int]) -> str: ...

    def token(self, token_id: int) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model as callers know it. version: content hash; created: unix seconds;
    context_length: tokens of prompt and completion together; vocab_size: ids end there."""

    name: str
    version: str
    created: int
    context_length: int
    vocab_size: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All of it. keepalive: seconds after which a quiet stream gets a comment. published_texts:
    prompts whose cache all tenants share."""

    model: ServedModel
    prompts: Prompts
    decoder: Decoder
    compiler: Compiler
    places: Places
    keys: Keys
    books: Books
    max_body_bytes: int = 16 << 20
    max_choices: int = 128
    published_texts: tuple[str, ...] = ()
    keepalive: float = 12.0
