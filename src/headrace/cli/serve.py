"""`headrace serve`: the whole service in one command."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from headrace.cli.announcement import announce
from headrace.cli.flags import with_settings
from headrace.cli.output import plainly
from headrace.settings import Settings, SettingsError

if TYPE_CHECKING:
    from headrace.edge.aside import Aside
    from headrace.edge.server import Server
    from headrace.hosting.models import HostedModels
    from headrace.hosting.spec import ModelSpec
    from headrace.models.catalogue import Catalogue
    from headrace.models.version import ModelVersion
    from headrace.quotas.store import Store
    from headrace.quotas.tally import QuotaTally
    from headrace.store.database import Database


FIRST_KEY = "first-key"
"""File in the data directory that gets the first key where there is no terminal to show it."""


@with_settings()
def serve(settings: Settings) -> None:
    """Serve models over OpenAI's API until stopped, fetching them first if need be."""
    import uvloop

    from headrace.access.errors import AccessError
    from headrace.edge.server import bind
    from headrace.fleet.errors import DoesNotFit, WorkerFailed
    from headrace.fleet.process import configure_log
    from headrace.models.errors import CatalogueError, ModelFileError
    from headrace.store.errors import StoreError
    from headrace.store.lock import only_service
    from headrace.store.url import database_url
    from headrace.text.template import TemplateError
    from headrace.text.tokenizer import TokenizerError

    configure_log(settings.log_level)
    with plainly(StoreError):
        url = database_url(settings.database_url, settings.data_dir)
    with (
        plainly(AccessError, StoreError, DoesNotFit, WorkerFailed),
        plainly(CatalogueError, ModelFileError, TokenizerError, TemplateError),
        only_service(settings.data_dir, url),
        bind(settings.host, settings.port) as listener,
        contextlib.suppress(asyncio.CancelledError),
    ):
        uvloop.run(run(settings, Served.fetched(settings), listener))


@dataclass(frozen=True, slots=True)
class Served:
    """What is to be served, fetched. texts: by a model's name, what the settings call it."""

    settings: Settings
    specs: list[ModelSpec]
    texts: dict[str, str]

    @classmethod
    def fetched(cls, settings: Settings) -> Served:
        """Raises SettingsError for two models of one name, and CatalogueError."""
        from headrace.hosting.spec import spec_of
        from headrace.models.catalogue import Catalogue

        catalogue = Catalogue(settings.models_dir)
        specs, texts = [], {}
        for text in settings.served:
            model = settings.of_model(text)
            version = fetch(catalogue, text)
            draft = fetch(catalogue, model.draft_model) if model.draft_model else None
            if version.name in texts:
                raise SettingsError(f"two of the models to serve are called {version.name}")
            texts[version.name] = text
            specs.append(spec_of(settings, model, version, draft, catalogue.get(text)))
        return cls(settings, specs, texts)

    def versions(self, name: str) -> list[str]:
        """The installed versions of a served model."""
        from headrace.models.catalogue import Catalogue

        text = self.texts.get(name)
        if text is None:
            return []
        found = Catalogue(self.settings.models_dir).versions(text)
        return [version.version for version in found if version.is_whole()]

    def pinned(self, name: str, version: str) -> ModelSpec | None:
        """How an installed version is served that is not the current one."""
        from headrace.hosting.spec import spec_of
        from headrace.models.catalogue import Catalogue

        text = self.texts.get(name)
        if text is None or any(spec.label == f"{name}@{version}" for spec in self.specs):
            return None
        catalogue = Catalogue(self.settings.models_dir)
        model = self.settings.of_model(text)
        for found in catalogue.versions(text):
            if found.version == version and found.is_whole():
                draft = catalogue.installed(model.draft_model) if model.draft_model else None
                entry = catalogue.get(text)
                return spec_of(self.settings, model, found, draft, entry, current=False)
        return None


def fetch(catalogue: Catalogue, model: str) -> ModelVersion:
    """A model's installed version; fetched with a progress bar if there is none."""
    if version := catalogue.installed(model):
        return version
    from headrace.cli.progress import progress_bar

    typer.echo(f"Installing {model} …")
    with progress_bar(model) as progress:
        return catalogue.pull(model, progress)


async def run(settings: Settings, served: Served, listener: socket.socket) -> None:
    """Everything between the listening socket and the engines, until a signal ends it.

    The engines' processes load their models while this one opens books and tokenizers, and
    imports what only the edge needs.
    """
    from headrace.edge.aside import Aside
    from headrace.hosting.models import HostedModels
    from headrace.hosting.opened import OpenedModel
    from headrace.hosting.running import RunningModel, Workshop

    _cancel_on_signal()
    async with AsyncExitStack() as cleanup:
        aside = Aside(int(settings.max_body_bytes))
        cleanup.callback(aside.close)
        workshop = Workshop(aside, published_texts(settings.published_prefixes))
        opening = asyncio.ensure_future(asyncio.to_thread(Books.open, settings))
        memory, specs = None, served.specs
        if settings.memory is not None:  # what tenants are pinned to has its part of it
            from headrace.hosting.pins import pinned_specs, read_pins

            memory = int(settings.memory)
            pinned = await (await opening).database.run(read_pins)
            specs = [*specs, *await asyncio.to_thread(pinned_specs, pinned, served.pinned)]
        models = HostedModels(
            specs, OpenedModel.of, lambda spec, opened: RunningModel(spec, opened, workshop), memory
        )
        cleanup.push_async_callback(models.stop, grace=1.0)
        books, _ = await asyncio.gather(opening, models.open())
        cleanup.callback(books.database.close)
        await _serve_edge(settings, served, models, books, aside, listener, cleanup)


async def _serve_edge(
    settings: Settings,
    served: Served,
    models: HostedModels,
    books: Books,
    aside: Aside,
    listener: socket.socket,
    cleanup: AsyncExitStack,
) -> None:
    """What stands before the models, until a signal ends it. cleanup: does so after that."""
    from headrace.access.authenticator import Authenticator
    from headrace.access.changes import Changes
    from headrace.access.pricelist import PriceList
    from headrace.dispatch.errors import Unavailable
    from headrace.edge.admin.office import Office
    from headrace.edge.app import create_app
    from headrace.edge.front import POLLED
    from headrace.edge.router import ModelRouter
    from headrace.edge.server import Server, connection_limits
    from headrace.edge.services import Services
    from headrace.hosting.pins import Pins
    from headrace.ledger.ledger import Ledger
    from headrace.ledger.spending import Spending
    from headrace.quotas.quotas import Quotas
    from headrace.quotas.tally import QuotaTally

    ledger = Ledger(books.database, books.edge)
    await ledger.start()
    cleanup.push_async_callback(ledger.stop)
    changes = Changes(books.database)
    keys = Authenticator(books.database, books.pepper, changes)
    pins = Pins(books.database, models, served.pinned)
    await pins.start()
    cleanup.push_async_callback(pins.stop)
    changes.subscribe(pins.hear)
    await changes.start()
    cleanup.push_async_callback(changes.stop)
    tally = QuotaTally()
    store = await cleanup.enter_async_context(counters(settings.valkey_url, tally))
    # Again, so that whatever still runs ends, and is written down, before the books close.
    cleanup.push_async_callback(models.stop, grace=1.0)
    open_metrics = metrics_are_open(settings, listener)
    prices = PriceList(books.database)
    changes.subscribe(prices.hear)
    services = Services(
        router=ModelRouter(models, prices),
        models=models,
        keys=keys,
        quotas=Quotas(store, Spending(books.database), tally),
        prices=prices,
        tally=tally,
        books=ledger,
        max_body_bytes=int(settings.max_body_bytes),
        max_choices=settings.max_choices,
        open_metrics=open_metrics,
    )
    office = Office(books.database, changes, books.pepper, served.versions)
    server = Server(
        create_app(services, aside, office),
        on_stop=models.drain,
        limits=connection_limits(settings),
        grace=settings.shutdown_grace,
        always=POLLED,
    )
    host, port = listener.getsockname()[:2]  # a signal may close it at any time from here on
    serving = asyncio.create_task(server.serve(listener))
    cleanup.push_async_callback(_stop_server, server, serving)
    starting = asyncio.create_task(models.started())
    await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        with contextlib.suppress(Unavailable):  # told to stop meanwhile
            await starting
            first_key = await asyncio.to_thread(books.first_key, settings)
            announce(models.status(), (host, port), first_key)
    await serving
    await asyncio.gather(starting, return_exceptions=True)


def metrics_are_open(settings: Settings, listener: socket.socket) -> bool:
    """Whether /metrics, which names tenants, needs no key. The log says so."""
    import structlog

    from headrace.edge.server import is_local

    is_open = settings.metrics == "open" or (settings.metrics == "auto" and is_local(listener))
    note = structlog.get_logger("headrace").info
    note("metrics_access", access="open" if is_open else "admin", setting=settings.metrics)
    return is_open


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
        from headrace.access.pepper import open_pepper
        from headrace.store.database import Database
        from headrace.store.files import make_private_files, pepper_path, read_edge
        from headrace.store.url import database_url

        make_private_files(pepper_path(settings.data_dir), settings.data_dir / FIRST_KEY)
        edge = read_edge(settings.data_dir)
        url = database_url(settings.database_url, settings.data_dir)
        database = Database.open(url, may_migrate=settings.auto_migrate)
        pepper = open_pepper(database, settings.data_dir)
        if settings.bootstrap_key:
            ensure_bootstrap_key(database, pepper, settings.bootstrap_key.get_secret_value())
        return cls(database, pepper, edge)

    def first_key(self, settings: Settings) -> str | Path | None:
        """A key made now, if this installation has none: its text where standard output is a
        terminal, else the file that it was written to, since output that is no terminal is likely
        to be kept by many. It must be shown at once, so it is not made before the service is up: a
        start that fails would lose it."""
        from headrace.access.bootstrap import ensure_bootstrap_key
        from headrace.store.files import write_private_file

        if settings.bootstrap_key:
            return None
        if sys.stdout.isatty():
            return ensure_bootstrap_key(self.database, self.pepper, None)
        file = settings.data_dir / FIRST_KEY
        made = ensure_bootstrap_key(
            self.database, self.pepper, None, keep=lambda text: write_private_file(file, text)
        )
        return made and file


def _cancel_on_signal() -> None:
    """Until the server takes signals over, they end the start."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)


async def _stop_server(server: Server, serving: asyncio.Task[None]) -> None:
    server.stop()
    await asyncio.gather(serving, return_exceptions=True)
