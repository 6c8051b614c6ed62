"""What the HTTP application needs of the rooms behind it, as the edge sees them."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol
from uuid import UUID

from msgspec import Struct

from headrace.access.price import Price
from headrace.access.principal import Principal
from headrace.dispatch.status import DispatchStatus
from headrace.dispatch.terms import Terms
from headrace.edge.gate import Gate
from headrace.engine.output import Output
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.grammar import Grammar
from headrace.ledger.charge import Ending, OpenCharge
from headrace.models.sampling import SamplingDefaults
from headrace.observe.meter import Meter
from headrace.quotas.demand import Consumed, Demand
from headrace.quotas.limit import Standing
from headrace.quotas.tally import QuotaTally
from headrace.routing.menu import Menu
from headrace.routing.needs import Needs
from headrace.routing.tier import Tier
from headrace.store.errors import DatabaseUnavailable
from headrace.text.reasoning import Thinking
from headrace.text.tools.format import ToolFormat
from headrace.turns.threads import Steps

if TYPE_CHECKING:
    from headrace.edge.deployment import Deployment


class Running(Protocol):
    """A generation that has a place (`dispatch.generation.Generation`)."""

    @property
    def pending(self) -> bool: ...

    def cancel(self) -> None: ...

    def __aiter__(self) -> AsyncIterator[Output]: ...


class Places(Protocol):
    """`dispatch.dispatcher.Dispatcher`."""

    def check(self, terms: Terms) -> None: ...

    async def place(self, request: GenerationRequest, terms: Terms) -> Running: ...

    def status(self) -> DispatchStatus: ...

    async def probe(self, timeout: float = 5.0) -> EngineStatus: ...


class Keys(Protocol):
    """`access.authenticator.Authenticator`."""

    async def authenticate(self, raw_key: str) -> Principal: ...


class Opening(Protocol):
    """A charge on its way into the books (`ledger.opening.Opening`)."""

    @property
    def failed(self) -> bool:
        """Whether it never came there, so that nothing is to be closed."""
        ...

    async def committed(self) -> None:
        """Wait until it is there. Raises DatabaseUnavailable."""
        ...


class Books(Protocol):
    """`ledger.ledger.Ledger`."""

    @property
    def backlog(self) -> int: ...

    @property
    def fault(self) -> DatabaseUnavailable | None:
        """Why nothing can be written down now, if so."""
        ...

    @property
    def late(self) -> bool:
        """Whether openings have to be awaited before any work."""
        ...

    def open(self, charge: OpenCharge) -> Opening: ...

    async def close(
        self,
        charge_id: UUID,
        *,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int,
        reasoning_tokens: int,
        cost: int,
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

    @property
    def least_a_message(self) -> int:
        """Tokens that a message which is no result of a call adds to a prompt at least."""
        ...

    def compared(self, variable: str) -> frozenset[str]: ...

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        add_generation_prompt: bool = ...,
        continue_final: bool = ...,
        tools: Sequence[Mapping[str, Any]] | None = ...,
        variables: Mapping[str, object] = ...,
    ) -> list[int]: ...

    def control(self, text: str) -> int | None: ...

    def conversation(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = ...,
        variables: Mapping[str, object] = ...,
        add_generation_prompt: bool = ...,
        continue_final: bool = ...,
        most: int | None = ...,
        stopped: Callable[[], bool] = ...,
    ) -> Steps[array[int]]: ...

    def thinking(self, prompt: Sequence[int]) -> Thinking | None: ...

    def completion(self, text: str) -> list[int]: ...

    @property
    def infill_ends(self) -> frozenset[int]: ...

    def text(
        self, text: str, *, special: bool = ..., most: int | None = ...
    ) -> Steps[array[int]]: ...

    def gap(self, prefix: str, suffix: str, *, most: int | None = ...) -> Steps[array[int]]:
        """Raises `text.infill.NoInfill`."""
        ...

    def prepare(self) -> None: ...


class Compiler(Protocol):
    """`grammar.compiler.Compiler`."""

    def prepare(self) -> None: ...

    def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> object: ...


class Decoder(Protocol):
    """What the edge asks of a tokenizer (`text.tokenizer.Tokenizer`)."""

    @property
    def bos_id(self) -> int | None: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def token(self, token_id: int) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model as callers know it. version: content hash; created: unix seconds;
    context_length: tokens of prompt and completion together; vocab_size: ids end there.
    long_from: a prompt of so many tokens is long: it waits, is priced and is limited apart; None
    if none is. tier: whose requests it may get. current: whether the bare name means this
    version. tools, reasoning: whether its own chat template knows them. sampling: how tokens are
    drawn where a request does not say. default_max_tokens: tokens of an answer in a chat whose
    request names no limit."""

    name: str
    version: str
    created: int
    context_length: int
    vocab_size: int
    fingerprint: str
    long_from: int | None = None
    tier: Tier | None = None
    current: bool = True
    tools: bool = False
    reasoning: bool = False
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    default_max_tokens: int = 4096

    def is_long(self, prompt_tokens: int) -> bool:
        return self.long_from is not None and prompt_tokens >= self.long_from


ModelState = Literal["unloaded", "loading", "ready", "draining"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """A version that is served, in memory or not. load: when it is loaded; closed: it takes no
    requests until it is loaded by hand; memory: bytes its engine holds at most when loaded;
    error: why the last load failed; users: requests that are on their way; deployment: where
    they go, if it is ready."""

    model: ServedModel
    state: ModelState
    load: Literal["start", "demand"]
    closed: bool
    memory: int
    error: str | None
    users: int
    deployment: Deployment | None


class UnknownModel(LookupError):
    """There is none of that name; the message says so."""


class Models(Protocol):
    """The models there are (`hosting.models.HostedModels`)."""

    @property
    def menu(self) -> Menu[ServedModel]: ...

    @property
    def draining(self) -> bool:
        """Nothing new is admitted any more."""
        ...

    async def use(self, model: ServedModel, deadline: float | None = None) -> Use:
        """Wait until it is in memory, no longer than to the deadline (unix seconds), and keep it
        there. Raises Refused."""
        ...

    def status(self) -> Sequence[ModelStatus]:
        """Of each, the default first."""
        ...

    async def load(self, name: str) -> ModelStatus:
        """Have it in memory and open. name: NAME or NAME@VERSION. Raises UnknownModel, and
        Refused."""
        ...

    async def unload(self, name: str, grace: float = ...) -> ModelStatus:
        """Free its memory, when what runs has finished or `grace` seconds are over. Raises
        UnknownModel."""
        ...

    async def close(self, name: str, grace: float = ...) -> ModelStatus:
        """Take no request for it until it is loaded by hand, and unload it. Raises
        UnknownModel."""
        ...


class Use(Struct, frozen=True):
    """A model that stays in memory until it is given back."""

    deployment: Deployment
    give_back: Callable[[], None]

    def __enter__(self) -> Deployment:
        return self.deployment

    def __exit__(self, *_: object) -> None:
        self.give_back()


class Route(Struct, frozen=True):
    """Where a request goes. use: the model, in memory. why: the way from the name that was asked
    to the model's, as x-headrace-route tells it."""

    use: Use
    why: str


class Router(Protocol):
    """Finds the model that a request means."""

    async def route(
        self, name: str, principal: Principal, needs: Needs, deadline: float | None
    ) -> Route:
        """Raises ApiError where there is none, or none that this principal may use, and Refused
        where it can't be had now, or not before the deadline (unix seconds)."""
        ...

    def find(self, name: str, principal: Principal) -> ServedModel:
        """What a name means, whatever is asked of it. Raises ApiError."""
        ...

    def names(self, principal: Principal) -> Sequence[tuple[str, ServedModel]]:
        """What the principal may name, and what it means: models, then aliases."""
        ...


class Reservation(Protocol):
    """What a request holds of its quotas while it is on its way."""

    @property
    def standings(self) -> Sequence[Standing]:
        """How the limits stand that it draws from, it included."""
        ...

    async def settle(self, consumed: Consumed) -> None:
        """Give back what was not used. Safe to call again, whatever happens to the caller."""
        ...


class Quotas(Protocol):
    """Counts what tenants and keys use (`quotas.quotas.Quotas`)."""

    async def enter(self, principal: Principal, id: UUID) -> Reservation:
        """What every request draws, before there is any work for it. Raises as `reserve`."""
        ...

    async def reserve(
        self, principal: Principal, id: UUID, demand: Demand, *, entered: bool = ...
    ) -> Reservation:
        """All that the request `id` may need, or nothing. entered: what `enter` draws was drawn.
        Raises `quotas.errors.LimitReached`, or DatabaseUnavailable where it would have to be
        asked and cannot."""
        ...

    async def standings(self, principal: Principal) -> Sequence[Standing]:
        """How its limits stand."""
        ...


class Prices(Protocol):
    """`access.pricelist.PriceList`."""

    async def price(self, model: str) -> Price | None:
        """What a served model costs. Raises DatabaseUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All of it. keepalive: seconds after which a quiet stream gets a comment. open_metrics: they
    need no key."""

    router: Router
    models: Models
    keys: Keys
    quotas: Quotas
    prices: Prices
    books: Books
    max_body_bytes: int = 16 << 20
    max_choices: int = 128
    keepalive: float = 12.0
    meter: Meter = field(default_factory=Meter)
    gate: Gate = field(default_factory=Gate)
    tally: QuotaTally = field(default_factory=QuotaTally)
    open_metrics: bool = True
