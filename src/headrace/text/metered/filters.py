"""The filters that templates have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import pass_context, pass_environment
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.utils import _PassArg

from headrace.text.metered.context import MeteredContext
from headrace.text.metered.meter import Meter
from headrace.text.metered.operations import formatted, replaced, width_of
from headrace.text.metered.passes import counted, metered
from headrace.text.metered.prices import LOOKUP, STEP
from headrace.text.metered.sizes import PART, SLOT, length_of
from headrace.text.metered.values import MAX_BITS, as_text, checked, spend_for_text, unmarked

LOOP, BODY = "(passes)", "(body)"
"""Filters whose names no template can write: they pay for passes, and for a body that is run."""


MAX_PADDING = 100_000  # items
MAX_PRECISION = 100  # digits
MAX_INDENT = 16  # characters


@pass_context
def _to_json(
    context: MeteredContext,
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the escapes for HTML that Jinja's own filter makes."""
    meter = context.meter
    if indent is not None and not (isinstance(indent, int) and indent <= MAX_INDENT):
        raise TypeError(f"an indent must be a number up to {MAX_INDENT}")
    if separators is not None and max(map(len, separators)) > MAX_INDENT:
        raise TypeError(f"a separator has up to {MAX_INDENT} characters")
    meter.spend(2 * STEP)
    if not meter.was_given(value):
        meter.spend_on(value, PART)
    if indent is not None:  # all in Python, some microseconds a value
        meter.spend_on(value, 4 * PART)
        meter.spend(_indents_of(value, indent))
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    spend_for_text(meter, len(text))
    return text


def _indents_of(value: object, indent: int) -> int:
    """Characters that a value is indented by, as JSON."""
    total, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        total += indent * depth
        if isinstance(item, dict | list | tuple):
            parts = item.values() if isinstance(item, dict) else item
            stack += [(part, depth + 1) for part in parts]
    return total


@pass_context
def _loop(context: MeteredContext, iterable: Any, work: int) -> Any:
    return counted(context.meter, iterable, work)


@pass_context
def _body(context: MeteredContext, value: None, work: int) -> None:
    context.meter.spend(work)


@pass_context
def _string(context: MeteredContext, value: object) -> str:
    return as_text(context.meter, value)


@pass_context
def _trim(context: MeteredContext, value: object, chars: str | None = None) -> str:
    text = value if type(value) is str else as_text(context.meter, value)
    context.meter.spend(2 * len(text))
    return text.strip(chars)


@pass_context
def _replace(
    context: MeteredContext, value: object, old: object, new: object, count: int | None = None
) -> str:
    text, old, new = (as_text(context.meter, each) for each in (value, old, new))
    times = -1 if count is None else count
    spend_for_text(context.meter, replaced(text, old, new, times))
    return text.replace(old, new, times)


@pass_context
def _join(
    context: MeteredContext, value: Any, d: object = "", attribute: str | int | None = None
) -> str:
    meter, environment = context.meter, context.environment
    items = list(counted(meter, value, STEP + _lookups((attribute,))))
    if attribute is not None:
        items = list(map(make_attrgetter(environment, attribute), items))
    texts = [as_text(meter, item) for item in items]
    between = as_text(meter, d)
    spend_for_text(meter, sum(map(len, texts)) + len(texts) * len(between))
    return between.join(texts)


@pass_context
def _format(context: MeteredContext, value: object, *args: Any, **kwargs: Any) -> str:
    return formatted(context.meter, as_text(context.meter, value), kwargs or args)


@pass_context
def _int(context: MeteredContext, value: object, default: int = 0, base: int = 10) -> int:
    value = value if isinstance(value, int | float) else as_text(context.meter, value)
    if isinstance(value, str) and len(value) > MAX_BITS:
        raise ValueError("a number that long is not available in chat templates")
    context.meter.spend(STEP + (4 * len(value) if isinstance(value, str) else 0))
    result: int = checked(FILTERS["int"](value, default, base))
    return result


@pass_context
def _float(context: MeteredContext, value: object, default: float = 0.0) -> float:
    text = value if isinstance(value, int | float) else as_text(context.meter, value)
    context.meter.spend(STEP + (4 * len(text) if isinstance(text, str) else 0))
    result: float = FILTERS["float"](text, default)
    return result


def _round(value: object, precision: int = 0, method: Any = "common") -> float:
    if not isinstance(value, int | float) or not abs(precision) <= MAX_PRECISION:
        raise TypeError(f"'round' takes a number, and a precision up to {MAX_PRECISION}")
    result: float = FILTERS["round"](value, precision, method)
    return result


def _sum(environment: Any, iterable: Any, attribute: str | None = None, start: Any = 0) -> Any:
    if not isinstance(start, int | float):
        raise TypeError("'sum' takes numbers")
    return checked(FILTERS["sum"](environment, iterable, attribute, start))


_sum_of = pass_environment(_sum)


def _reading(function: Callable[..., Any], times: int = 1) -> Callable[..., Any]:
    """The filter, which reads its value whole so many times at most and makes nothing larger."""
    passes = _PassArg.from_obj(function)

    def run(context: MeteredContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        if isinstance(value, Iterator):
            value = list(metered(meter, value, STEP))
        meter.spend_on(value, PART, times)
        given = (*args, *kwargs.values())
        meter.spend(STEP + sum(map(length_of, given)))
        lookups = _lookups(given)
        if lookups:
            value = list(counted(meter, value, STEP + lookups))
        return _paid(meter, function(*_passed(passes, context), value, *args, **kwargs))

    return pass_context(run)


def _walking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, which goes through its value once and leaves the items as they are."""
    passes = _PassArg.from_obj(function)

    def run(context: MeteredContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        meter.spend(length_of(value) * (SLOT if isinstance(value, str) else 1) + LOOKUP)
        return _paid(meter, function(*_passed(passes, context), value, *args, **kwargs))

    return pass_context(run)


def _picking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, which looks at its value's items one by one and hands on what it makes of
    them."""
    passes = _PassArg.from_obj(function)

    def run(context: MeteredContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        meter.spend(LOOKUP)
        items = counted(meter, value, 2 * STEP + _lookups((*args, *kwargs.values())))
        return function(*_passed(passes, context), items, *args, **kwargs)

    return pass_context(run)


def of_text(
    function: Callable[..., Any], bound: Callable[..., int] = lambda text, *args, **kwargs: 0
) -> Callable[..., Any]:
    """The filter, which makes of a text one of its size and what `bound` says of its arguments."""
    passes = _PassArg.from_obj(function)

    def run(context: MeteredContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        text = as_text(meter, value)
        spend_for_text(meter, 2 * len(text) + bound(text, *args, **kwargs) + STEP)
        meter.spend(sum(map(length_of, args)))
        return unmarked(function(*_passed(passes, context), text, *args, **kwargs))

    return pass_context(run)


def _passed(passes: _PassArg | None, context: MeteredContext) -> tuple[Any, ...]:
    """What a filter of Jinja asks for before its value."""
    match passes:
        case _PassArg.context:
            return (context,)
        case _PassArg.eval_context:
            return (context.eval_ctx,)
        case _PassArg.environment:
            return (context.environment,)
    return ()


def _lookups(arguments: tuple[Any, ...]) -> int:
    """Units for each item of looking up attributes, by names that these may be."""
    names = [text for text in arguments if isinstance(text, str)]
    return sum(LOOKUP * (1 + name.count(".") + name.count(",")) for name in names)


def _paid(meter: Meter, result: Any) -> Any:
    """What a filter made, its items paid for when they come where they are not there yet."""
    if isinstance(result, Iterator):
        return metered(meter, result, STEP)
    meter.spend(length_of(result))
    return checked(unmarked(result))


def _indent_bound(text: str, width: int | str = 4, *args: Any, **kwargs: Any) -> int:
    return (text.count("\n") + 2) * (len(width) if isinstance(width, str) else width_of(width))


def _batch(value: Any, linecount: int, fill_with: Any = None) -> Iterator[Any]:
    if width_of(linecount) > MAX_PADDING:
        raise ValueError(f"'batch' takes up to {MAX_PADDING} items")
    made: Iterator[Any] = FILTERS["batch"](value, linecount, fill_with)
    return made


_TEXT_FILTERS: Mapping[str, Callable[..., int]] = {
    "capitalize": lambda text: 2 * len(text),
    "center": lambda text, width=80: width_of(width),
    "escape": lambda text: 5 * len(text),
    "indent": _indent_bound,
    "lower": lambda text: 2 * len(text),
    "title": lambda text: 8 * len(text),
    "truncate": lambda text, *args, **kwargs: 0,
    "upper": lambda text: 2 * len(text),
    "wordcount": lambda text: 2 * len(text),
}
_READING_FILTERS = {"dictsort": 4, "groupby": 4, "max": 1, "min": 1, "sort": 4, "unique": 1}
_WALKING_FILTERS = ("attr", "first", "items", "last", "list", "reverse", "slice")
_PICKING_FILTERS = ("map", "reject", "rejectattr", "select", "selectattr")


def all_filters() -> dict[str, Callable[..., Any]]:
    """By name."""
    filters: dict[str, Callable[..., Any]] = {
        "abs": FILTERS["abs"],
        "default": FILTERS["default"],
        "float": _float,
        "length": FILTERS["length"],
        "batch": _walking(_batch),
        "format": _format,
        "int": _int,
        "join": _join,
        "replace": _replace,
        "round": _round,
        "safe": _string,
        "string": _string,
        "sum": _reading(_sum_of),
        "tojson": _to_json,
        "trim": _trim,
        "urlencode": _reading(FILTERS["urlencode"], 12),
        LOOP: _loop,
        BODY: _body,
    }
    filters |= {name: of_text(FILTERS[name], bound) for name, bound in _TEXT_FILTERS.items()}
    filters |= {name: _reading(FILTERS[name], n) for name, n in _READING_FILTERS.items()}
    filters |= {name: _walking(FILTERS[name]) for name in _WALKING_FILTERS}
    filters |= {name: _picking(FILTERS[name]) for name in _PICKING_FILTERS}
    aliases = {"count": "length", "d": "default", "e": "escape", "forceescape": "escape"}
    return filters | {name: filters[other] for name, other in aliases.items()}
