"""`headrace doctor`: what this machine can do, and what would keep the service from working."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from headrace.cli.flags import with_settings
from headrace.cli.machine import free_memory
from headrace.cli.output import JsonFlag, print_json, size
from headrace.extras import how_to_install
from headrace.settings import Settings
from headrace.units import GIB, MIB

if TYPE_CHECKING:
    from headrace.model_settings import ModelSettings
    from headrace.models.version import ModelVersion
    from headrace.ops.program import Program
    from headrace.ops.weights import WeightSource

OVERHEAD = 384 * MIB
"""Memory of the serving process, roughly, with what it keeps of grammars."""

MEASURED_MODEL = GIB
"""Models up to this size are loaded to measure them."""

SPARE_DISK = 512 * MIB
"""Below this a data directory is close to losing charges."""


@dataclass(frozen=True)
class Finding:
    """One line of the report; advice says what to do about it, figures are its numbers."""

    check: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    advice: str | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


@with_settings()
def doctor(settings: Settings, as_json: JsonFlag = False) -> None:
    """Check this machine and installation. Exit code 1 if something would fail."""
    findings = []
    for finding in examine(settings):
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)


def examine(settings: Settings) -> Iterator[Finding]:
    """Every check's findings, as soon as they are known."""
    checks: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
        _compute,
        _models,
        _memory,
        _folders,
        _database,
        _port,
    )
    for check in checks:
        yield from check(settings)


def _print(finding: Finding) -> None:
    colour = {"ok": "green", "warn": "yellow", "fail": "red"}[finding.status]
    typer.echo(
        f"{typer.style(f'{finding.status:4}', fg=colour)}  {finding.check}: {finding.detail}"
    )
    if finding.advice:
        typer.echo(f"      → {finding.advice}")


def _compute(settings: Settings) -> Iterator[Finding]:
    from headrace.fleet.cores import usable_cores

    cores = usable_cores()
    threads = settings.threads or cores
    detail = f"{cores} usable, {os.cpu_count()} logical; {threads} compute threads"
    if threads > cores:
        advice = "more threads than cores slow each other down; lower --threads"
        yield Finding("cores", "warn", detail, advice)
    else:
        yield Finding("cores", "ok", detail)
    try:
        from headrace.ops.cpu import available_isas
    except ImportError as error:
        advice = "install a C++20 compiler, then Headrace again, in its folder: make setup"
        yield Finding("kernels", "fail", f"the native kernels do not load: {error}", advice)
        return
    available = available_isas()
    isa = settings.isa or available[0]
    if isa not in available:
        detail = f"{isa} is set, and this machine has {', '.join(available)}"
        yield Finding("instruction sets", "fail", detail, "unset HEADRACE_ISA, or --isa")
        return
    slow = "kernels run on the portable code, many times slower" if isa == "scalar" else None
    detail = f"{', '.join(available)}; {isa} is used"
    yield Finding("instruction sets", "warn" if slow else "ok", detail, slow)
    yield from _speed(settings, isa, threads)


def _speed(settings: Settings, isa: str, threads: int) -> Iterator[Finding]:
    """What the machine can do, and what the model's own steps make of it."""
    from headrace.ops import cpu, pace

    name, program, weights = _to_measure(settings)
    steps = pace.measure_pace(program, weights, threads=threads, isa=isa)
    # As many bytes as a step reads: what of them stays in cache comes faster.
    speed = cpu.measure_speed(threads, isa, steps.decode_bytes)
    detail = f"{speed.bytes_per_second / 1e9:.1f} GB/s read from memory; multiply-adds a second: "
    detail += f"{_giga(speed.products_per_second)} of int8 at most, "
    detail += f"{_giga(speed.kernel_products_per_second)} in the matrix kernel, "
    detail += f"{_giga(speed.floats_per_second)} of float32 at most"
    figures = {key: value for key, value in asdict(speed).items() if isinstance(value, float)}
    yield Finding("speed", "ok", detail, figures=figures)

    least = steps.decode_bytes / speed.bytes_per_second
    detail = f"{1e3 * steps.decode_seconds:.2f} ms for a token of {name}; reading its "
    detail += f"{size(steps.decode_bytes)} takes {1e3 * least:.2f} ms at least, "
    detail += f"so {least / steps.decode_seconds:.0%} of memory's speed is reached"
    figures = {"seconds": steps.decode_seconds, "floor_seconds": least}
    yield Finding("decode", "ok", detail, figures=figures)

    least = steps.prefill_products / speed.products_per_second
    detail = f"{1e3 * steps.prefill_seconds:.0f} ms for {steps.prefill_tokens} tokens of {name}; "
    detail += f"its products take {1e3 * least:.0f} ms at least, "
    detail += f"so {least / steps.prefill_seconds:.0%} of the int8 rate is reached"
    figures = {"seconds": steps.prefill_seconds, "floor_seconds": least}
    yield Finding("prefill", "ok", detail, figures=figures)


def _giga(rate: float) -> str:
    return f"{rate / 1e9:.{0 if rate >= 1e10 else 1}f} G"


def _to_measure(settings: Settings) -> tuple[str, Program, WeightSource]:
    """The installed model and its name, or a stand-in where there is none to load in seconds."""
    from headrace.models.errors import ModelFileError
    from headrace.models.model import open_model
    from headrace.ops.pace import stack

    version = _installed(settings, settings.model[0])
    if version is not None and version.size <= MEASURED_MODEL:
        try:
            model = open_model(version.path, quantization=settings.quantization)
        except ModelFileError:
            pass  # `_models` says so
        else:
            return version.name, model.program, model.weights
    return ("a stack of 4-bit matrices", *stack())


def _models(settings: Settings) -> Iterator[Finding]:
    """Each that is to be served, and what guesses for it. The first is called "model"."""
    for text in settings.served:
        name = "model" if text == settings.model[0] else f"model {text}"
        options = settings.of_model(text)
        yield from _model(settings, text, options, name)
        if options.draft_model is not None:
            yield from _draft(settings, text, options, options.draft_model)


def _model(settings: Settings, text: str, options: ModelSettings, name: str) -> Iterator[Finding]:
    from headrace.models.catalogue import Catalogue
    from headrace.models.errors import CatalogueError, ModelFileError
    from headrace.models.model import open_model

    catalogue = Catalogue(settings.models_dir)
    try:
        entry = catalogue.get(text)
        version = catalogue.installed(text)
        broken = [v for v in catalogue.versions(text) if not v.is_whole()]
    except CatalogueError as error:
        yield Finding(name, "fail", str(error), "choose one by --model or HEADRACE_MODEL")
        return
    if version is None:
        fault = "is not the file that was installed" if broken else "is not on disk"
        advice = f"the first `headrace serve` fetches it, or: headrace models pull {text}"
        yield Finding(name, "warn", f"{entry.name} {fault}", advice)
        if entry.size:
            yield _space(f"disk for the {name}", settings.models_dir, entry.size)
        return
    try:
        model = open_model(version.path, quantization=options.quantization)
    except ModelFileError as error:
        advice = "choose a model of a supported architecture"
        if options.quantization:
            advice += ", or unset --quantization"
        yield Finding(name, "fail", str(error), advice)
        return
    detail = f"{version.name} {version.version}, {model.architecture}, {size(version.size)}"
    if options.quantization:
        detail += f", quantised to {options.quantization}"
    yield Finding(name, "ok", f"{detail}, {model.context_length} tokens of context")


def _draft(settings: Settings, text: str, options: ModelSettings, draft: str) -> Iterator[Finding]:
    from headrace.models.errors import ModelFileError
    from headrace.models.model import open_model

    version = _installed(settings, draft)
    if version is None:
        advice = f"the first `headrace serve` fetches it, or: headrace models pull {draft}"
        yield Finding("draft model", "warn", f"{draft} is not on disk", advice)
        return
    try:
        model = open_model(version.path, quantization=options.quantization)
    except ModelFileError as error:
        yield Finding("draft model", "fail", str(error), "choose another by --draft-model")
        return
    detail = f"{version.name} {version.version}, {model.architecture}, {size(version.size)}"
    yield Finding("draft model", "ok", f"{detail}; it guesses tokens of {text}")


def _memory(settings: Settings) -> Iterator[Finding]:
    from headrace.fleet.errors import DoesNotFit
    from headrace.fleet.sizes import DEFAULT_KV

    try:
        engine = _engine_memory(settings)
    except DoesNotFit as error:
        advice = "change --memory, --kv-memory or the setting it names"
        yield Finding("memory", "fail", str(error), advice)
        return
    if engine is None:
        engine = settings.memory or (settings.kv_memory or DEFAULT_KV) + OVERHEAD
    needed = engine + OVERHEAD
    free = free_memory()
    detail = f"{size(free)} free; {size(needed)} are needed at most, {size(engine)} by the engine"
    detail += f", whose KV cache has {settings.kv_cache} keys"
    if needed > free:
        advice = "lower --memory or --kv-memory, or choose a smaller model"
        yield Finding("memory", "warn", detail, advice)
    else:
        yield Finding("memory", "ok", detail)


def _engine_memory(settings: Settings) -> int | None:
    """Bytes that engines would hold at most, all loaded; None where a model can't be opened.

    Raises DoesNotFit as the start would.
    """
    from headrace.hosting.models import planned
    from headrace.hosting.opened import OpenedModel
    from headrace.hosting.spec import spec_of
    from headrace.models.catalogue import Catalogue
    from headrace.models.errors import ModelFileError

    catalogue = Catalogue(settings.models_dir)
    specs = []
    for text in settings.served:
        options = settings.of_model(text)
        version = _installed(settings, text)
        if version is None:
            return None
        draft = _installed(settings, options.draft_model) if options.draft_model else None
        specs.append(spec_of(settings, options, version, draft, catalogue.get(text)))
    try:
        opened = [OpenedModel.of(spec) for spec in specs]
    except ModelFileError:
        return None  # `_models` says so
    if settings.memory is not None:
        specs = planned(specs, opened, int(settings.memory))
    sizes = [each.sized(spec).memory for each, spec in zip(opened, specs, strict=True)]
    return min(sum(sizes), int(settings.memory or sum(sizes)))


def _folders(settings: Settings) -> Iterator[Finding]:
    for name, folder in (
        ("data directory", settings.data_dir),
        ("models directory", settings.models_dir),
    ):
        existing = _nearest_existing(folder)
        try:
            with tempfile.TemporaryFile(dir=existing):
                state = "is writable" if existing == folder else "will be made by the first start"
        except OSError as error:
            advice = f"give this user the folder, or set another: --{name.replace(' ', '-')}"
            advice = advice.replace("directory", "dir")
            yield Finding(name, "fail", f"{existing} is not writable: {error.strerror}", advice)
        else:
            yield Finding(name, "ok", f"{folder} {state}")
    yield _space("disk for data", settings.data_dir, SPARE_DISK)


def _database(settings: Settings) -> Iterator[Finding]:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError

    from headrace.store.errors import StoreError, reason
    from headrace.store.migrate import revision
    from headrace.store.schema import HEAD
    from headrace.store.url import database_url

    try:
        url = database_url(settings.database_url, settings.data_dir)
    except StoreError as error:
        yield Finding("database", "fail", str(error), "mend HEADRACE_DATABASE_URL")
        return
    shown = url.render_as_string(hide_password=True)
    if url.drivername == "sqlite" and not Path(str(url.database)).exists():
        yield Finding("database", "ok", f"{shown} will be made by the first start")
        return
    try:
        engine = create_engine(url)
        with engine.connect() as connection:
            found = revision(connection)
        engine.dispose()
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        advice = "start it, or mend HEADRACE_DATABASE_URL"
        if isinstance(error, ModuleNotFoundError):
            advice = how_to_install("postgres")
        yield Finding("database", "fail", f"{shown} cannot be used: {reason(error)}", advice)
        return
    if found == HEAD:
        yield Finding("database", "ok", f"{shown} at revision {found}")
    else:
        detail = f"{shown} is at revision {found}, this release's is {HEAD}"
        yield Finding("database", "warn", detail, "the next start migrates an older one")


def _port(settings: Settings) -> Iterator[Finding]:
    where = f"{settings.host} port {settings.port}"
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.host, settings.port))
    except OSError as error:
        yield _occupied(settings, where, error)
    else:
        yield Finding("port", "ok", f"{where} is free")


def _occupied(settings: Settings, where: str, fault: OSError) -> Finding:
    """A port that cannot be had: ours already, or a fault."""
    import httpx

    from headrace.cli.remote import base_url

    try:
        with httpx.Client(base_url=base_url(settings), timeout=5) as client:
            if client.get("/").json()["service"] != "headrace":
                raise KeyError
            state = client.get("/readyz").json()
            ready = state["status"] == "ready"
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        advice = "stop what listens there, or choose another: --port, HEADRACE_PORT"
        return Finding("port", "fail", f"{where} cannot be had: {fault.strerror}", advice)
    if ready:
        return Finding("port", "ok", f"a Headrace serves at {where}, and is ready")
    advice = "see its log"
    return Finding(
        "port", "warn", f"a Headrace at {where} is not ready: {state.get('reason')}", advice
    )


def _installed(settings: Settings, model: str) -> ModelVersion | None:
    from headrace.models.catalogue import Catalogue
    from headrace.models.errors import CatalogueError

    try:
        return Catalogue(settings.models_dir).installed(model)
    except CatalogueError:
        return None  # `_models` says so


def _space(check: str, folder: Path, needed: int) -> Finding:
    free = shutil.disk_usage(_nearest_existing(folder)).free
    detail = f"{size(free)} free for {folder}"
    if free < needed:
        return Finding(check, "fail", f"{detail}; {size(needed)} are needed", "free some space")
    return Finding(check, "ok", detail)


def _nearest_existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
