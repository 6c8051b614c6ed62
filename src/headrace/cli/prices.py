"""`headrace prices`: what tokens cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.books import about_models, actor, changing, reading
from headrace.cli.known import CatalogueModels, Force
from headrace.cli.moments import iso, moment_ahead
from headrace.cli.output import CommandError, JsonFlag, print_record, print_rows
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.access.price import Price

app = typer.Typer(
    help="What a million tokens cost. Prices are never changed, only followed by others.",
    no_args_is_help=True,
)


@app.command("set")
@about_models
def put(
    settings: Settings,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    input: Annotated[str, typer.Option(metavar="MONEY", help="A million tokens of prompt.")],
    output: Annotated[str, typer.Option(metavar="MONEY", help="A million generated tokens.")],
    cached_input: Annotated[
        str | None,
        typer.Option(metavar="MONEY", help="Of prompt that was cached (default: as --input)."),
    ] = None,
    long_from: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tokens of prompt from which a request is long."),
    ] = None,
    long_input: Annotated[
        str | None, typer.Option(metavar="MONEY", help="Of a long request (default: as --input).")
    ] = None,
    long_output: Annotated[
        str | None, typer.Option(metavar="MONEY", help="Of a long request (default: as --output).")
    ] = None,
    long_cached_input: Annotated[
        str | None,
        typer.Option(
            metavar="MONEY",
            help="Of a long request (default: as --long-input if given, else as --cached-input).",
        ),
    ] = None,
    valid_from: Annotated[
        str | None,
        typer.Option("--from", metavar="MOMENT", help="A span (7d) or a date (default: now)."),
    ] = None,
    force: Force = False,
    as_json: JsonFlag = False,
) -> None:
    """Write down a price, which holds for requests that begin from its moment on. Amounts are in
    decimals, exact, with 3 of them at most."""
    from headrace.access.price import Rates
    from headrace.access.prices import set_price

    rates = Rates(
        input=_rate(input, "--input"),
        cached_input=_rate(cached_input or input, "--cached-input"),
        output=_rate(output, "--output"),
    )
    long_given = [long_input, long_output, long_cached_input]
    if (long_from is None) != (long_given == [None] * 3):
        raise CommandError("--long-from goes with --long-input, --long-output or both")
    long_cached = long_cached_input or long_input or cached_input or input
    long_rates = (
        None
        if long_from is None
        else Rates(
            input=_rate(long_input or input, "--long-input"),
            cached_input=_rate(long_cached, "--long-cached-input"),
            output=_rate(long_output or output, "--long-output"),
        )
    )
    moment = None if valid_from is None else moment_ahead(valid_from, "--from")
    known = CatalogueModels(settings)
    with changing(settings, make=True) as connection:
        price = set_price(
            connection,
            model,
            rates,
            actor=actor(),
            known=None if force else known,
            long_from=long_from,
            long_rates=long_rates,
            valid_from=None if moment is None else int(moment.timestamp() * 1000),
        )
    print_record(_record(price), as_json=as_json)


@app.command("list")
@about_models
def list_all(
    settings: Settings,
    model: Annotated[str | None, typer.Option(help="Only this model's.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Former and future ones too, not only the present.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List prices a million tokens. Where `exists` is no, there is no model of this name here."""
    from headrace.access.prices import list_prices, prices_at

    with reading(settings) as connection:
        if every:
            prices = list_prices(connection, model)
        else:
            present = prices_at(connection, time.time_ns() // 1_000_000)
            prices = [price for price in present.values() if model in (None, price.model)]
    names = CatalogueModels(settings).names()
    rows = [_record(price) | {"exists": price.model in names} for price in prices]
    print_rows(rows, as_json=as_json, empty="no prices")


def _rate(text: str, option: str) -> int:
    from headrace.access.errors import AccessError
    from headrace.access.price import parse_rate

    try:
        return parse_rate(text)
    except AccessError as error:
        raise CommandError(f"{option}: {error}") from None


def _record(price: Price) -> dict[str, object]:
    from headrace.access.price import format_rate

    long_rates = price.long_rates
    return {
        "model": price.model,
        "version": price.version,
        "from": iso(price.valid_from),
        "input": format_rate(price.rates.input),
        "cached_input": format_rate(price.rates.cached_input),
        "output": format_rate(price.rates.output),
        "long_from": price.long_from,
        "long_input": long_rates and format_rate(long_rates.input),
        "long_cached_input": long_rates and format_rate(long_rates.cached_input),
        "long_output": long_rates and format_rate(long_rates.output),
    }
