"""`headrace serve`: the whole service in one command."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import json
import signal
import socket
from array import array
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from headrace import __version__
from headrace.cli.flags import with_settings
from headrace.cli.output import plainly, size
from headrace.settings import Settings, SettingsError

if TYPE_CHECKING:
    from pydantic import ByteSize

    from headrace.dispatch.dispatcher import Dispatcher
    from headrace.edge.server import Server
    from headrace.edge.services import ServedModel
    from headrace.fleet.config import WorkerConfig
    from headrace.fleet.messages import Ready
    from headrace.grammar.compiler import Compiler
    from headrace.models.model import Model
    from headrace.models.quantisation import Quantization
    from headrace.models.version import ModelVersion
    from headrace.quotas.store import Store
    from headrace.quotas.tally import QuotaTally
    from headrace.store.database import Database
    from headrace.text.prompt import PromptBuilder
    from headrace.text.tokenizer import Tokenizer

NUMERICS = "cpu-2"
"""Raised when the same weights and seed begin to give other tokens."""


@with_settings()
def serve(settings: Settings) -> None:
    """Serve a model over OpenAI's API until stopped, fetching it first if need be."""
    import uvloop

    from headrace.access.errors import AccessError
    from headrace.edge.server import bind
    from headrace.fleet.errors import DoesNotFit, WorkerFailed
    from headrace.fleet.process import configure_log
    from headrace.models.errors import CatalogueError, ModelFileError
    from headrace.store.errors import StoreError
    from headrace.text.template import TemplateError
    from headrace.text.tokenizer import TokenizerError

    configure_log(settings.log_level)
    with (
        plainly(AccessError, StoreError, DoesNotFit, WorkerFailed),
        plainly(CatalogueError, ModelFileError, TokenizerError, TemplateError),
        bind(settings.host, settings.port) as listener,
        contextlib.suppress(asyncio.CancelledError),
    ):
        draft = fetch(settings, settings.draft_model) if settings.draft_model else None
        uvloop.run(run(settings, fetch(settings, settings.model), draft, listener))


def fetch(settings: Settings, model: str) -> ModelVersion:
    """A model's installed version; fetched with a progress bar if there is none."""
    from headrace.models.catalogue import Catalogue

    catalogue = Catalogue(settings.models_dir)
    if version := catalogue.installed(model):
        return version
    from headrace.cli.progress import progress_bar

    typer.echo(f"Installing {model} …")
    with progress_bar(model) as progress:
        return catalogue.pull(model, progress)


async def run(
    settings: Settings, version: ModelVersion, draft: ModelVersion | None, listener: socket.socket
) -> None:
    """Everything between the listening socket and the engine, until a signal ends it.

    The engine's process loads the model while this one opens books and tokenizer.
    """
    from headrace.access.authenticator import Authenticator
    from headrace.access.changes import Changes
    from headrace.access.pricelist import PriceList
    from headrace.dispatch.dispatcher import Dispatcher
    from headrace.dispatch.errors import Unavailable
    from headrace.dispatch.policy import usual_policies
    from headrace.edge.app import create_app
    from headrace.edge.aside import Aside
    from headrace.edge.deployment import Deployment
    from headrace.edge.plan import Planner
    from headrace.edge.router import SingleModel
    from headrace.edge.server import Server
    from headrace.edge.services import Services
    from headrace.fleet.supervisor import Supervisor
    from headrace.ledger.ledger import Ledger
    from headrace.ledger.spending import Spending
    from headrace.quotas.quotas import Quotas
    from headrace.quotas.tally import QuotaTally

    _cancel_on_signal()
    config = worker_config(settings, version, draft)
    supervisor = Supervisor(config)
    dispatcher = Dispatcher(supervisor, usual_policies(settings.max_queue))
    async with AsyncExitStack() as cleanup:
        starting = asyncio.create_task(dispatcher.start())
        cleanup.push_async_callback(_stop_engine, dispatcher, starting)
        books, words = await asyncio.gather(
            asyncio.to_thread(Books.open, settings),
            asyncio.to_thread(
                Words.open, version.path, settings.quantization, settings.tool_format
            ),
        )
        cleanup.callback(books.database.close)
        published = published_texts(settings.published_prefixes)
        ledger = Ledger(books.database, books.edge)
        await ledger.start()
        cleanup.push_async_callback(ledger.stop)
        changes = Changes(books.database)
        keys = Authenticator(books.database, books.pepper, changes)
        await changes.start()
        cleanup.push_async_callback(changes.stop)
        # Again, so that whatever still runs ends, and is written down, before the books close.
        cleanup.push_async_callback(_stop_engine, dispatcher, starting)
        aside = Aside()
        cleanup.callback(aside.close)
        model = served_model(config, version, words.model, settings.long_from)
        planner = Planner(model, words.prompts, words.tokenizer, words.compiler, aside, published)
        planner.open()
        cleanup.callback(planner.close)
        tally = QuotaTally()
        store = await cleanup.enter_async_context(counters(settings.valkey_url, tally))
        prices = PriceList(books.database)
        changes.subscribe(prices.forget)
        services = Services(
            router=SingleModel(Deployment(model, planner, dispatcher)),
            keys=keys,
            quotas=Quotas(store, Spending(books.database), tally),
            prices=prices,
            books=ledger,
            max_body_bytes=int(settings.max_body_bytes),
            max_choices=settings.max_choices,
            open_metrics=settings.metrics == "open",
        )
        server = Server(create_app(services, aside), on_stop=dispatcher.drain)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        cleanup.push_async_callback(_stop_server, server, serving)
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await starting
            with contextlib.suppress(Unavailable):  # told to stop meanwhile
                await warm_up(dispatcher)
                new_key = await asyncio.to_thread(books.first_key, settings)
                announce(version, supervisor.status().ready, listener, new_key)
        await serving


@contextlib.asynccontextmanager
async def counters(url: str | None, tally: QuotaTally) -> AsyncIterator[Store]:
    """Where quotas are counted: with other edges at this address, or in memory."""
    from headrace.quotas.memory import MemoryStore
    from headrace.quotas.shared import SharedStore
    from headrace.quotas.valkey import ValkeyStore
    from headrace.store.ids import uuid7

    if url is None:
        yield MemoryStore()
        return
    shared = SharedStore(ValkeyStore(url, uuid7().hex), tally)
    await shared.start()
    try:
        yield shared
    finally:
        await shared.stop()


def published_texts(folder: Path | None) -> tuple[str, ...]:
    """Raises SettingsError if the folder or a text in it cannot be read."""
    from headrace.edge.published import read_texts

    if folder is None:
        return ()
    try:
        return tuple(read_texts(folder))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"published_prefixes: {error}") from None


@dataclass(frozen=True, slots=True)
class Books:
    """The database, and what else of this installation lies beside it."""

    database: Database
    pepper: bytes
    edge: UUID

    @classmethod
    def open(cls, settings: Settings) -> Books:
        from headrace.access.bootstrap import ensure_bootstrap_key
        from headrace.store.database import Database
        from headrace.store.files import read_edge, read_pepper
        from headrace.store.url import database_url

        pepper, edge = read_pepper(settings.data_dir), read_edge(settings.data_dir)
        database = Database.open(database_url(settings.database_url, settings.data_dir))
        if settings.bootstrap_key:
            ensure_bootstrap_key(database, pepper, settings.bootstrap_key.get_secret_value())
        return cls(database, pepper, edge)

    def first_key(self, settings: Settings) -> str | None:
        """The text of a key made now, if this installation has none. It must be shown at once,
        so it is not made before the service is up: a start that fails would lose it."""
        from headrace.access.bootstrap import ensure_bootstrap_key

        if settings.bootstrap_key:
            return None
        return ensure_bootstrap_key(self.database, self.pepper, None)


@dataclass(frozen=True, slots=True)
class Words:
    """The model's side of text, in this process."""

    model: Model
    tokenizer: Tokenizer
    prompts: PromptBuilder
    compiler: Compiler

    @classmethod
    def open(cls, path: Path, quantization: Quantization | None, tool_format: str | None) -> Words:
        from headrace.grammar.compiler import Compiler
        from headrace.models.model import open_model
        from headrace.text.prompt import PromptBuilder
        from headrace.text.tokenizer import Tokenizer

        model = open_model(path, quantization=quantization)
        tokenizer = Tokenizer.of_checkpoint(model.metadata, model.tokenizer_file)
        prompts = PromptBuilder.for_model(tokenizer, model.chat_template, tool_format)
        return cls(model, tokenizer, prompts, Compiler(tokenizer, model.program.vocab_size))


def worker_config(
    settings: Settings, version: ModelVersion, draft: ModelVersion | None
) -> WorkerConfig:
    from headrace.fleet.config import WorkerConfig

    return WorkerConfig(
        path=str(version.path),
        model=version.name,
        version=version.version,
        isa=settings.isa,
        quantization=settings.quantization,
        threads=settings.threads,
        memory=_bytes(settings.memory),
        kv_memory=_bytes(settings.kv_memory),
        kv_cache=settings.kv_cache,
        max_sequences=settings.max_sequences,
        max_step_tokens=settings.max_step_tokens or usual_step_tokens(settings),
        context_length=settings.context_length,
        prefix_cache=settings.prefix_cache,
        target_itl=settings.target_itl,
        target_throughput=settings.target_throughput,
        speculate=settings.speculate,
        speculate_tokens=settings.speculate_tokens,
        draft_path=None if draft is None else str(draft.path),
        log_level=settings.log_level,
    )


def usual_step_tokens(settings: Settings) -> int:
    """Few cores compute 128 rows as well as 512, and nobody waits long for a step; many need more
    rows to share."""
    from headrace.fleet.cores import usable_cores

    threads = settings.threads or usable_cores()
    return max(2 * settings.max_sequences, min(512, 64 * threads))


def _bytes(size: ByteSize | None) -> int | None:
    """A plain int, as messages carry."""
    return None if size is None else int(size)


def served_model(
    config: WorkerConfig, version: ModelVersion, model: Model, long_from: int | None
) -> ServedModel:
    from headrace.edge.services import ServedModel
    from headrace.fleet.draft import open_draft
    from headrace.fleet.sizes import sizes_for
    from headrace.ops.cpu import CpuBackend

    draft = open_draft(config, model)
    sizes = sizes_for(config, model, CpuBackend.kv_row_bytes, draft)
    # The context decides how some ropes are stretched.
    chosen = (config.kv_cache, config.quantization, config.context_length)
    determined_by = f"{version.sha256} {NUMERICS} {chosen}"
    return ServedModel(
        name=version.name,
        version=version.version,
        created=int(version.installed_at),
        context_length=sizes.context_length,
        vocab_size=model.program.vocab_size,
        fingerprint=f"fp_{hashlib.sha256(determined_by.encode()).hexdigest()[:10]}",
        long_from=long_from or max(1, sizes.context_length // 4),
    )


async def warm_up(dispatcher: Dispatcher) -> None:
    """Two steps, so that the first caller finds weights in memory and threads awake."""
    from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions

    request = GenerationRequest(
        id="warm-up",
        prompt=array("i", [0] * 8),
        sampling=SamplingParams(temperature=0.0),
        stopping=StopConditions(max_tokens=2),
    )
    async for _ in await dispatcher.place(request):
        pass


def announce(
    version: ModelVersion, ready: Ready | None, listener: socket.socket, new_key: str | None
) -> None:
    """Say what runs, where, and how to talk to it. A new key is shown here and nowhere else."""
    from headrace.ops.backend import BLOCK_SIZE

    url = _url(listener)
    lines = [f"Headrace {__version__} serves {version.name} ({version.version}) at {url}"]
    if ready is not None:
        lines.append(
            f"{ready.isa}, {ready.threads} threads, room for {ready.blocks * BLOCK_SIZE} tokens "
            f"in all and {ready.context_length} in a sequence, {ready.max_sequences} at once; "
            f"the engine takes {size(ready.memory)} of memory at most"
        )
    if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        lines.append("Other machines can reach this address, and nothing on the way is encrypted.")
    if new_key is None:
        lines.append("Keys: headrace keys create --tenant NAME. Talk to it: headrace chat")
    else:
        lines += ["", *_first_steps(url, version.name, new_key)]
    typer.echo("\n".join([*lines, "README.md and docs/ tell the rest. Ctrl-C stops it."]))


def _first_steps(url: str, model: str, key: str) -> list[str]:
    messages = [{"role": "user", "content": "Say hello."}]
    body = json.dumps({"model": model, "messages": messages, "temperature": 0})
    return [
        f"Your key, shown this once: {key}",
        "",
        f"  curl {url}/v1/chat/completions -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'",
        "",
        "  from openai import OpenAI",
        f'  client = OpenAI(base_url="{url}/v1", api_key="{key}")',
        "",
    ]


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


def _cancel_on_signal() -> None:
    """Until the server takes signals over, they end the start."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)


async def _stop_engine(dispatcher: Dispatcher, starting: asyncio.Task[None]) -> None:
    await dispatcher.stop(grace=1.0)
    await asyncio.gather(starting, return_exceptions=True)


async def _stop_server(server: Server, serving: asyncio.Task[None]) -> None:
    server.should_exit = True
    await asyncio.gather(serving, return_exceptions=True)
