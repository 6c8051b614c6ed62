"""Operations that make more than they are given."""

from __future__ import annotations

import re
from string import Formatter
from typing import Any

from headrace.text.metered.meter import MAX_WORK, Meter
from headrace.text.metered.sizes import NUMBER, SLOT, length_of, size_of
from headrace.text.metered.values import MAX_BITS, check_length, checked, spend_for_text, unmarked


def product(meter: Meter, left: Any, right: Any) -> Any:
    for parts, times in ((left, right), (right, left)):
        if isinstance(parts, str | list | tuple) and isinstance(times, int):
            size = length_of(parts) * max(times, 0)
            if isinstance(parts, str):
                check_length(size)
            meter.spend(size + SLOT)
            return unmarked(parts * times)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("'*' takes numbers, or a number and a text or list")
    if isinstance(left, int) and isinstance(right, int):
        meter.spend(work_of_digits(left, right))
        if left.bit_length() + right.bit_length() > MAX_BITS:
            checked(1 << MAX_BITS)
    return left * right


_DIGITS = re.compile(r"\d+")
_STARRED = re.compile(r"%[#0\- +\d.]*\*")


def work_of_digits(left: int, right: int) -> int:
    """Units of a product or a division."""
    return SLOT + (left.bit_length() * right.bit_length() >> 12)


def _widths(text: str) -> int:
    """All numbers in a format's text, each of which may be a width."""
    return sum(int(digits) if len(digits) < 10 else 10**9 for digits in _DIGITS.findall(text))


def formatted(meter: Meter, format: str, values: Any) -> str:
    """`format % values`."""
    if _STARRED.search(format):
        raise TypeError("'*' is no width in chat templates")
    fields = format.count("%")
    each = _all_of(meter, values) if fields else 0
    spend_for_text(meter, len(format) + _widths(format) + fields * each)
    return str(format % unmarked(values))


def _all_of(meter: Meter, values: object) -> int:
    """Characters of all that a format may put in one place."""
    meter.spend_on(values, NUMBER)
    return size_of(values, NUMBER, MAX_WORK)


def spend_for_fields(meter: Meter, format: str, values: object) -> None:
    """For `str.format`."""
    size = len(format)
    each = _all_of(meter, values)
    for _, field, spec, _ in Formatter().parse(format):
        if spec and "{" in spec:
            raise TypeError("a width that is a field is not available in chat templates")
        if field is not None:
            size += each + _widths(spec or "")
    spend_for_text(meter, size)


def replaced(text: str, old: str, new: str, count: int = -1) -> int:
    """Most characters of `text.replace(old, new, count)`."""
    found = text.count(old) if count < 0 else min(text.count(old), count)
    return len(text) + found * max(len(new) - len(old), 0)


def width_of(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("a width must be a number")
    return max(value, 0)


def bound_of_method(name: str, text: str, args: tuple[Any, ...]) -> int:
    """Characters that a text's method makes or reads at most."""
    if name in ("center", "ljust", "rjust", "zfill"):
        return len(text) + width_of(args[0] if args else None)
    if name == "replace" and len(args) > 1:
        return len(text) + replaced(text, *args)
    if name == "join" and args:
        return sum(map(len, args[0])) + len(args[0]) * (len(text) + SLOT)
    return len(text) + sum(map(length_of, args))
