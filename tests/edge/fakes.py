"""The edge with all its rooms behind it and a model that says what a test wants.

Dispatcher, engine, scheduler and text pipeline are the real ones; only the forward pass, the
process border, the tokenizer (a token is a byte) and the database are not.
"""

from __future__ import annotations

import asyncio
import dataclasses
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

import httpx
import msgspec
import numpy as np

from headrace.access.errors import InvalidKey
from headrace.access.limits import UNLIMITED, Limits
from headrace.access.price import Price
from headrace.access.principal import Principal, Scope
from headrace.access.tenant import Tenant
from headrace.dispatch.dispatcher import Dispatcher
from headrace.dispatch.errors import Unavailable
from headrace.dispatch.policy import usual_policies
from headrace.edge.admin.office import Office
from headrace.edge.app import create_app
from headrace.edge.aside import Aside
from headrace.edge.deployment import Deployment
from headrace.edge.plan import Planner
from headrace.edge.router import ModelRouter
from headrace.edge.server import Server, bind
from headrace.edge.services import ModelStatus, ServedModel, Services, UnknownModel, Use
from headrace.engine.blocks import BlockPool
from headrace.engine.budget import StepBudget
from headrace.engine.loop import Engine
from headrace.engine.request import GenerationRequest
from headrace.engine.runner import ModelRunner
from headrace.engine.scheduler import Scheduler
from headrace.engine.status import EngineStatus
from headrace.fleet.constraining import Constraining
from headrace.fleet.errors import WorkerUnavailable
from headrace.fleet.mailbox import Mailbox
from headrace.fleet.messages import Ready
from headrace.fleet.supervisor import WorkerStatus
from headrace.grammar.compiler import Compiler
from headrace.ledger.charge import OpenCharge
from headrace.ledger.opening import Opening
from headrace.ops.backend import BLOCK_SIZE
from headrace.quotas.memory import MemoryStore
from headrace.quotas.quotas import Quotas
from headrace.quotas.tally import QuotaTally
from headrace.routing.menu import Menu
from headrace.store.errors import DatabaseUnavailable
from headrace.text.continued import until_end, with_end
from headrace.text.infill import NoInfill
from headrace.text.pipeline import TextPipeline
from headrace.text.reasoning import Thinking
from headrace.text.template import ChatTemplate
from headrace.text.tokenizer import TextTooLong
from headrace.text.tools.format import FORMATS
from headrace.turns.threads import Steps
from tests.engine.fakes import FakeExecutable

KEY = "hr-test_secret"
OTHER_KEY = "hr-other_secret"
MODEL = "tiny"
AUTH = {"authorization": f"Bearer {KEY}"}
CONTEXT = 512
BLOCKS = 256
EOS, BOS, TURN, MARK = 256, 257, 258, 259
VOCAB = 260
NONE: Mapping[str, object] = {}
TENANT, OTHER_TENANT = UUID(int=7), UUID(int=8)
ACME, OTHER = Tenant(id=TENANT, name="acme"), Tenant(id=OTHER_TENANT, name="other")
TEMPLATE = (
    "{% if enable_thinking is defined and not enable_thinking %}<quiet>{% endif %}"
    "{% if thinking_budget %}<budget {{ thinking_budget }}>{% endif %}"
    "{% for m in messages %}"
    "{% if m.content == 'RAISE' %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]"
    "{% endfor %}</>{% endfor %}"
    "{% for t in tools or [] %}<tool {{ t.function.name }}>{% endfor %}"
)


class Bytes:
    """Tokenizer and prompt builder at once: a token is a byte of UTF-8; three are control.

    marker: what the control token MARK is called in the vocabulary."""

    vocab_size = VOCAB
    eos_ids = frozenset({EOS})

    def __init__(self) -> None:
        self.tool_format = FORMATS["hermes"]
        self.several_calls = True
        self.least_a_message = 1
        self.marker = ""
        self.bos_id: int | None = BOS
        self.thoughts: Thinking | None = None
        self.template = ChatTemplate(TEMPLATE, bos_token="", eos_token="")

    def piece(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < 256 else b""

    def decode(self, ids: list[int]) -> str:
        return b"".join(map(self.piece, ids)).decode(errors="replace")

    def token(self, token_id: int) -> str:
        names = {EOS: "<eos>", BOS: "<bos>", TURN: "<turn>", MARK: self.marker or "<mark>"}
        return names.get(token_id, "")

    def is_control(self, token_id: int) -> bool:
        return token_id >= 256

    def control(self, text: str) -> int | None:
        return MARK if text == self.marker else None

    def encode_within(self, text: str) -> list[int]:
        return list(text.encode())

    def completion(self, text: str, *, special: bool = False) -> list[int]:
        parts = text.split("<turn>") if special else [text]
        return [token for part in parts for token in (TURN, *part.encode())][1:]

    @property
    def infill_ends(self) -> frozenset[int]:
        return frozenset({MARK})

    def text(
        self, text: str, *, special: bool = False, most: int | None = None
    ) -> Steps[array[int]]:
        return bounded(self.completion(text, special=special), most)

    def gap(self, prefix: str, suffix: str, *, most: int | None = None) -> Steps[array[int]]:
        """Only with a MARK: between the two texts."""
        if not self.marker:
            raise NoInfill("the model has no tokens for it")
        return bounded([*prefix.encode(), MARK, *suffix.encode()], most)

    def prepare(self) -> None:
        pass

    @property
    def variables(self) -> frozenset[str]:
        return self.template.variables

    def compared(self, variable: str) -> frozenset[str]:
        return self.template.compared(variable)

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, object] = NONE,
    ) -> list[int]:
        said = with_end(messages) if continue_final else messages
        text = self.template.render(said, tools=tools, **variables)
        if continue_final:
            return [BOS, *until_end(text, messages[-1]["content"]).encode()]
        return [BOS, *text.encode(), *([TURN] if add_generation_prompt else [])]

    def conversation(
        self,
        messages: list[dict[str, Any]],
        *,
        most: int | None = None,
        stopped: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> Steps[array[int]]:
        return (yield from bounded(self.chat(messages, **options), most))

    def thinking(self, prompt: Sequence[int]) -> Thinking | None:
        """As a test wants it to be."""
        return self.thoughts


def bounded(ids: list[int], most: int | None) -> Steps[array[int]]:
    if most is not None and len(ids) > most:
        raise TextTooLong(len(ids), exact=True)
    return array("i", ids)
    yield


def tokens_of(text: str | bytes, eos: bool = True) -> list[int]:
    raw = text.encode() if isinstance(text, str) else text
    return [*raw, *([EOS] if eos else [])]


class ScriptedModel:
    """Logits by which a greedy draw follows `script`, whatever the prompt; then letters go on
    for ever. margin: how far ahead of all others the scripted token is. answer: a model to ask
    instead of the script."""

    def __init__(self) -> None:
        self.script: list[int] = []
        self.prompts: list[list[int]] = []
        self.margin = 40.0
        self.answer: Callable[[list[int]], Any] | None = None

    def __call__(self, history: list[int]) -> Any:
        if self.answer is not None:
            return self.answer(history)
        said = len(history) - max(
            (len(p) for p in self.prompts if history[: len(p)] == p), default=0
        )
        token = self.script[said] if said < len(self.script) else ord("a") + said % 26
        return np.where(np.arange(VOCAB) == token, self.margin, 0).astype(np.float32)


class LocalSupervisor:
    """`fleet.supervisor.Supervisor` without a process: the engine steps on the event loop.

    pace: seconds between steps. paused: no step is made while it is set.
    """

    def __init__(
        self, max_sequences: int = 32, blocks: int = BLOCKS, prefix_cache: bool = True
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.model = ScriptedModel()
        self.pace = 0.0
        self.paused = False
        self.last_error: str | None = None
        self.capacity = max_sequences
        self._most, self._blocks = max_sequences, blocks
        self._prefix_cache = prefix_cache
        self.engine = self._new_engine()
        self._mailboxes: dict[str, Mailbox] = {}
        self._task: asyncio.Task[None] | None = None
        self.steps = 0
        self._stepped = asyncio.Condition()

    def _new_engine(self) -> Engine:
        text = Bytes()
        return Engine(
            ModelRunner(
                FakeExecutable(self._blocks, self.model),
                max_sequences=self._most,
                max_step_tokens=64,
                max_blocks=self._blocks,
                vocab_size=VOCAB,
            ),
            Scheduler(
                BlockPool(self._blocks, caching=self._prefix_cache),
                StepBudget(64),
                max_sequences=self._most,
                context_length=CONTEXT,
            ),
            text,
            partial(TextPipeline, text),
            vocab_size=VOCAB,
            constraints=Constraining(Compiler(text, VOCAB)),  # type: ignore[arg-type]
        )

    @property
    def live(self) -> int:
        return len(self._mailboxes)

    async def start(self) -> None:
        self._task = asyncio.create_task(self._work())
        self.on_change()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def submit(self, request: GenerationRequest) -> Mailbox:
        self.model.prompts.append(list(request.prompt))
        mailbox = self._mailboxes[request.id] = Mailbox(request)
        self.engine.submit(request)
        return mailbox

    def cancel(self, request_id: str) -> None:
        self.engine.cancel(request_id)

    def die(self, reason: str = "the engine process is gone: killed by SIGKILL") -> None:
        """What becomes of live requests whose second worker dies: the next one knows none."""
        for mailbox in self._mailboxes.values():
            mailbox.end("error", reason)
        self.engine = self._new_engine()
        self._mailboxes.clear()
        self.on_change()

    async def probe(self, timeout: float) -> EngineStatus:
        if not self.capacity:
            raise WorkerUnavailable("no engine is running")
        return self.engine.status()

    @property
    def ready(self) -> Ready | None:
        return self.status().ready

    def status(self) -> WorkerStatus:
        ready = Ready(
            model=MODEL,
            version="v1",
            isa="scalar",
            threads=1,
            blocks=self._blocks,
            max_sequences=self.capacity,
            max_step_tokens=64,
            context_length=min(CONTEXT, self._blocks * BLOCK_SIZE),
            memory=1 << 30,
            pid=1,
        )
        state = "ready" if self.capacity else "starting"
        return WorkerStatus(state, ready if self.capacity else None, 1, 0, self.last_error)

    async def reach(self, steps: int) -> None:
        """Wait until that many steps were made."""
        async with self._stepped:
            await self._stepped.wait_for(lambda: self.steps >= steps)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self.pace)
            if self.paused or not self.engine.has_work:
                await asyncio.sleep(0.001)
                continue
            self.steps += 1
            for output in self.engine.step():
                mailbox = self._mailboxes.get(output.id)
                if mailbox is not None:
                    mailbox.put(output)
                    if output.finish is not None:
                        del self._mailboxes[output.id]
            self.on_change()
            async with self._stepped:
                self._stepped.notify_all()


class Keyring:
    """`access.authenticator.Authenticator` with fixed keys."""

    def __init__(self) -> None:
        self.tenant = ACME
        self.limits = UNLIMITED

    def limit(self, **limits: Any) -> None:
        """What the tenant may use from now on."""
        self.tenant = replace(self.tenant, limits=Limits(**limits))

    async def authenticate(self, raw_key: str) -> Principal:
        if raw_key == OTHER_KEY:
            return Principal(OTHER, "other", frozenset({"inference"}))
        scopes: dict[str, Scope] = {KEY: "inference", "hr-admin_secret": "admin"}
        if raw_key not in scopes:
            raise InvalidKey("unknown")
        return Principal(self.tenant, "test", frozenset({scopes[raw_key]}), self.limits)


@dataclass
class PriceTag:
    """`access.pricelist.PriceList` of one price for everything."""

    tag: Price | None = None

    async def price(self, model: str) -> Price | None:
        return self.tag


@dataclass
class Book:
    """`ledger.ledger.Ledger` in memory; closing twice or unopened is a failure. held: openings
    stay on their way. broken: why nothing can be written."""

    held: bool = False
    broken: DatabaseUnavailable | None = None
    late: bool = False
    patience: float = 5.0
    opened: dict[UUID, OpenCharge] = field(default_factory=dict)
    closed: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    _written: dict[UUID, asyncio.Future[None]] = field(default_factory=dict)

    @property
    def backlog(self) -> int:
        return 0

    @property
    def fault(self) -> DatabaseUnavailable | None:
        return self.broken

    def open(self, charge: OpenCharge) -> Opening:
        assert charge.id not in self.opened
        self.opened[charge.id] = charge
        written = self._written[charge.id] = asyncio.get_running_loop().create_future()
        if not self.held:
            written.set_result(None)
        return Opening(written, self.patience, lambda: None, lambda: self.opened.pop(charge.id))

    def write(self) -> None:
        """Bring what is on its way to where it belongs."""
        self.held = False
        for written in self._written.values():
            if not written.done():
                written.set_result(None)

    async def close(self, charge_id: UUID, **counts: Any) -> None:
        assert charge_id in self.opened
        assert charge_id not in self.closed
        await self._written[charge_id]
        self.closed[charge_id] = counts

    async def spent(self, tenant: UUID, key_id: str | None, since: int) -> int:
        """As `ledger.spending.Spending`, for the one tenant that pays."""
        return sum(counts["cost"] for counts in self.closed.values())

    def last(self) -> dict[str, Any]:
        return list(self.closed.values())[-1]


class InMemory:
    """`hosting.models.HostedModels` whose models are there until they are unloaded by hand."""

    def __init__(self, *deployments: Deployment) -> None:
        self._deployments: list[Deployment] = []
        self.draining = False
        self.users = 0
        self.unloaded: set[str] = set()
        self.closed: set[str] = set()
        self.add(*deployments)

    def add(self, *deployments: Deployment) -> None:
        self._deployments += deployments
        self.menu = Menu(deployment.model for deployment in self._deployments)

    async def use(self, model: ServedModel, deadline: float | None = None) -> Use:
        if model.name in self.closed:
            raise Unavailable("draining", f"{model.name} takes no requests", 1.0)
        self.unloaded.discard(model.name)
        self.users += 1
        return Use(next(d for d in self._deployments if d.model == model), self._give_back)

    def status(self) -> list[ModelStatus]:
        return [self._status(deployment) for deployment in self._deployments]

    async def load(self, name: str) -> ModelStatus:
        deployment = self._of(name)
        self.closed.discard(deployment.model.name)
        self.unloaded.discard(deployment.model.name)
        return self._status(deployment)

    async def unload(self, name: str, grace: float = 30.0) -> ModelStatus:
        deployment = self._of(name)
        self.unloaded.add(deployment.model.name)
        return self._status(deployment)

    async def close(self, name: str, grace: float = 30.0) -> ModelStatus:
        self.closed.add(self._of(name).model.name)
        return await self.unload(name, grace)

    def _of(self, name: str) -> Deployment:
        for deployment in self._deployments:
            model = deployment.model
            if name in (model.name, f"{model.name}@{model.version}"):
                return deployment
        raise UnknownModel(f"no model called {name[:200]!r} is served")

    def _status(self, deployment: Deployment) -> ModelStatus:
        name = deployment.model.name
        return ModelStatus(
            model=deployment.model,
            state="unloaded" if name in self.unloaded else "ready",
            load="start",
            closed=name in self.closed,
            memory=1 << 30,
            error=None,
            users=self.users,
            deployment=None if name in self.unloaded else deployment,
        )

    def _give_back(self) -> None:
        self.users -= 1


class World:
    """The service in one piece. Use as an async context manager."""

    def __init__(
        self,
        max_sequences: int = 32,
        *,
        blocks: int = BLOCKS,
        prefix_cache: bool = True,
        office: Office | None = None,
        **options: Any,
    ) -> None:
        self.supervisor = LocalSupervisor(max_sequences, blocks, prefix_cache)
        policies = usual_policies(options.pop("max_queue", 1024))
        self.dispatcher = Dispatcher(self.supervisor, policies)  # type: ignore[arg-type]
        self.books = Book()
        self.keys = Keyring()
        self.prices = PriceTag()
        self.counters = MemoryStore()
        self.tally = QuotaTally()
        self.text = Bytes()
        model = ServedModel(
            name=MODEL,
            version="v1",
            created=1,
            context_length=min(CONTEXT, blocks * BLOCK_SIZE),
            vocab_size=VOCAB,
            fingerprint="fp_test",
            long_from=options.pop("long_from", None),
        )
        self.model = model
        self.aside = Aside()
        self.planner = Planner(
            model,
            self.text,
            self.text,
            Compiler(self.text, VOCAB),  # type: ignore[arg-type]
            self.aside,
            options.pop("published_texts", ()),
        )
        self.models = InMemory(Deployment(model, self.planner, self.dispatcher))
        self.services = Services(
            router=ModelRouter(self.models, self.prices),
            models=self.models,
            keys=options.pop("keys", self.keys),
            quotas=Quotas(self.counters, self.books, self.tally),
            tally=self.tally,
            prices=self.prices,
            books=self.books,
            max_choices=16,
            **options,
        )
        self.app = create_app(self.services, self.aside, office)
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://edge", headers=AUTH
        )

    async def __aenter__(self) -> World:
        await self.dispatcher.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        await self.supervisor.stop()
        self.planner.close()
        self.aside.close()

    def also(self, **fields: Any) -> None:
        """Serve another model, which differs in these fields and runs on the same engine."""
        model = dataclasses.replace(self.model, **fields)
        compiler: Any = Compiler(self.text, VOCAB)  # type: ignore[arg-type]
        planner = Planner(model, self.text, self.text, compiler, self.aside)
        self.models.add(Deployment(model, planner, self.dispatcher))

    def say(self, text: str | bytes, *, eos: bool = True) -> None:
        """What the model answers from now on."""
        self.supervisor.model.script = tokens_of(text, eos)

    async def chat(self, **fields: Any) -> httpx.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Say ok."}], **fields}
        return await self.http.post("/v1/chat/completions", json=body)

    async def complete(self, **fields: Any) -> httpx.Response:
        body = {"model": MODEL, "prompt": "one two", **fields}
        return await self.http.post("/v1/completions", json=body)

    async def message(self, **fields: Any) -> httpx.Response:
        messages = [{"role": "user", "content": "Say ok."}]
        body = {"model": MODEL, "max_tokens": 100, "messages": messages, **fields}
        return await self.http.post("/v1/messages", json=body)

    async def idle(self) -> None:
        """Wait until nothing is queued, runs or holds a block, and every charge is closed."""

        def over() -> bool:
            status, engine = self.dispatcher.status(), self.supervisor.engine.status()
            busy = status.queued + status.running + engine.running + engine.waiting
            # A step in flight holds the blocks of a sequence that was cancelled under it.
            working = busy or self.supervisor.engine.has_work
            held = working or self.models.users
            return not held and len(self.books.closed) == len(self.books.opened)

        await until(over)
        engine = self.supervisor.engine.status()
        assert engine.blocks_free + engine.blocks_cached == engine.blocks_total

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Serve on a loopback port by the real server; its base URL."""
        listener = bind("127.0.0.1", 0)
        port = listener.getsockname()[1]
        server = Server(self.app, on_stop=lambda: None)
        task = asyncio.create_task(server.serve(listener))
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.stop()
            server.stop()
            await task


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that no event tells."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def events(response: httpx.Response) -> list[Any]:
    """The data of a stream's events, which must be well formed and end with [DONE]."""
    assert response.status_code == 200, response.text
    frames = response.content.decode("utf-8", "strict").split("\n\n")
    assert frames.pop() == ""
    data = [frame.removeprefix("data: ") for frame in frames if not frame.startswith(":")]
    assert data.pop() == "[DONE]"
    return [msgspec.json.decode(line) for line in data]


def joined(chunks: list[Any], index: int = 0) -> str:
    """The text of one choice of a stream."""
    choices = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
    return "".join(c["delta"].get("content", "") if "delta" in c else c["text"] for c in choices)


def reasons(chunks: list[Any]) -> dict[int, str]:
    """finish_reason by index; there must be one for each."""
    found = [
        (choice["index"], choice["finish_reason"])
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["finish_reason"] is not None
    ]
    assert len(found) == len(dict(found))
    return dict(found)


def text_of(body: Any, index: int = 0) -> str:
    choice = body["choices"][index]
    assert choice["index"] == index
    text: str = choice["message"]["content"] if "message" in choice else choice["text"]
    return text


def error_of(response: httpx.Response, status: int) -> Any:
    """The error of a refusal, which must be JSON with exactly OpenAI's four fields."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return body["error"]
