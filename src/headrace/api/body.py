"""A request body before anything is believed of it: an object, not too deep, of known keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

MAX_DEPTH = 64
"""Deepest nesting of arrays and objects that a body may have."""

MAX_CONTAINERS = 100_000
"""Most arrays and objects that a body may have."""

MAX_VALUES = 1_100_000
"""Most values that a body may have: a million token ids, and what else it says."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_BLOCK = 1 << 16
_NOT_STRUCTURE = bytes(b for b in range(256) if b not in b'"[]{},')
_CHANGES_OF_DEPTH = np.zeros(256, np.int8)
_CHANGES_OF_DEPTH[list(b"[{")] = 1
_CHANGES_OF_DEPTH[list(b"]}")] = -1
_LIST_OF_NUMBERS = re.compile(r"\[[0-9,\s]{256,}+\]")
_ESCAPED_SURROGATES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<alone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_PATH = re.compile(r" - at `(?:key` in `)?\$(?P<path>[^`]*)`$")
_IN_MAPPING = re.compile(r" - at `(?:\$\[\.\.\.\]|key` in `\$)`$")
_NAMED_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(?P<name>.*)`$")

T = TypeVar("T", bound=msgspec.Struct)


class BodyError(ValueError):
    """What is wrong with a body. param: path of the field, such as `messages[0].role`."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class TooComplex(BodyError):
    """A body has more arrays, objects or items than its bounds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a body may have. containers: arrays and objects. items: in one of them, beside arrays
    and objects."""

    containers: int = MAX_CONTAINERS
    items: int = MAX_VALUES

    def may_be_passed_by(self, body: bytes) -> bool:
        """Whether the body has so many bytes that it could have more: each takes two at least."""
        return len(body) >= 2 * min(self.containers, self.items)


WIDEST = Bounds()


def check_structure(body: bytes, bounds: Bounds = WIDEST) -> None:
    """Count brackets and commas outside strings, on bytes alone, so that it can stand before a
    parser. Takes memory in proportion to the body once, and time in short steps.

    Raises BodyError beyond MAX_DEPTH or MAX_VALUES, and TooComplex beyond the bounds.
    """
    nests = body.count(b"[") + body.count(b"{") > MAX_DEPTH
    commas = _commas(body) if bounds.may_be_passed_by(body) else 0
    if not nests and commas < min(bounds.items, MAX_VALUES):
        return
    structure = _Structure(bounds)
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(unescaped.translate(None, _NOT_STRUCTURE), np.uint8)
    for start in range(0, len(marks), _BLOCK):
        structure.add(marks[start : start + _BLOCK])


def _commas(body: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(body, np.uint8) == ord(",")))


class _Structure:
    """What quotes, brackets and commas tell of a body so far."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._quotes = self._values = self._brackets = self._depth = 0
        self._commas = 0  # since the last bracket

    def add(self, marks: NDArray[np.uint8]) -> None:
        """The next quotes, brackets and commas. Raises BodyError."""
        is_quote = marks == ord('"')
        quotes = self._quotes + is_quote.cumsum(dtype=np.int32)
        self._quotes = int(quotes[-1]) & 1
        outside = marks[~is_quote & (quotes & 1 == 0)]
        changes = _CHANGES_OF_DEPTH[outside]
        (brackets,) = changes.nonzero()
        self._brackets += len(brackets)
        self._values += len(outside) - len(brackets)
        if self._values >= MAX_VALUES:
            raise BodyError(f"The request body has more than {MAX_VALUES} values.")
        if self._brackets > 2 * self._bounds.containers:
            raise TooComplex(
                f"The request body has more than {self._bounds.containers} arrays and objects."
            )
        if self._longest_run(brackets, len(outside)) >= self._bounds.items:
            raise TooComplex(
                f"The request body has an array or object of more than {self._bounds.items} items."
            )
        if len(brackets):
            depths = self._depth + changes[brackets].cumsum(dtype=np.int32)
            self._depth = int(depths[-1])
            if depths.max() > MAX_DEPTH:
                raise BodyError(f"The request body nests deeper than {MAX_DEPTH} levels.")

    def _longest_run(self, brackets: NDArray[np.intp], marks: int) -> int:
        """The most commas between two brackets, of those that end here or go on. brackets: where
        they are among so many marks."""
        if not len(brackets):
            self._commas += marks
            return self._commas
        first = self._commas + int(brackets[0])
        self._commas = marks - int(brackets[-1]) - 1
        between = int(np.diff(brackets).max(initial=1)) - 1
        return max(first, between, self._commas)


def check_keys(text: str) -> None:
    """Raises BodyError if one object, at any depth, has a key twice: readers of JSON differ in
    which of the two counts. text: valid JSON."""
    # Long lists of numbers have no keys. What stands for one differs as the lists do, should it
    # be a key's text.
    text = _LIST_OF_NUMBERS.sub(lambda found: f"[{hash(found[0])}]", text)
    try:
        _UNIQUE_KEYS.decode(text)
    except (BodyError, json.JSONDecodeError):
        raise
    except ValueError:  # Python refuses integers of more than 4300 digits
        _UNIQUE_KEYS_OF_FLOATS.decode(text)


def _check_object(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) == len(pairs):
        return
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            param = _shorten(name)
            raise BodyError(f"The key '{param}' is twice in one object of the body.", param)
        seen.add(name)


_UNIQUE_KEYS = json.JSONDecoder(object_pairs_hook=_check_object)
_UNIQUE_KEYS_OF_FLOATS = json.JSONDecoder(object_pairs_hook=_check_object, parse_int=float)
"""Five times slower for integers, during which no other thread runs."""


def _check_surrogates(body: bytes) -> None:
    """Raises BodyError for an escape of half a surrogate pair, which stands for no character."""
    for found in _ESCAPED_SURROGATES.finditer(body):
        if alone := found["alone"]:
            raise BodyError(
                f"The request body has half of a surrogate pair, {alone.decode()}, at byte "
                f"{found.start('alone')}: it stands for no character."
            )


def split_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """The body's keys with their values unparsed. A byte order mark before it is skipped.

    Raises BodyError if it is no JSON object, or has a key twice at any depth.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)
    check_structure(body)
    try:
        text = body.decode()
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        _check_surrogates(body)
        with suppress(json.JSONDecodeError):  # told when its field is read
            check_keys(text)
        return fields
    except UnicodeDecodeError as error:
        raise BodyError(f"The request body is not valid UTF-8 (byte {error.start}).") from None
    except msgspec.ValidationError as error:
        raise BodyError(f"The request body must be a JSON object: {error}.") from None
    except msgspec.DecodeError as error:
        _check_surrogates(body)
        reason = str(error) if body.strip() else "it is empty"
        raise BodyError(f"The request body is not valid JSON: {_shorten(reason)}.") from None


def suggest(name: str, known: list[str]) -> str:
    """` Did you mean 'max_tokens'?` for a name close to a known one, else nothing."""
    close = get_close_matches(name[:64], known, n=1, cutoff=0.7)
    return f" Did you mean '{close[0]}'?" if close else ""


class FieldReader(Generic[T]):
    """Reads a struct from unparsed fields: no casts, null for an optional field is absent, unless
    null_is_absent says that it is a value."""

    def __init__(self, struct: type[T], *, null_is_absent: bool = True) -> None:
        hints = get_type_hints(struct, include_extras=True)
        self._struct = struct
        self._null_is_absent = null_is_absent
        self._decoders = {name: msgspec.json.Decoder(hint) for name, hint in hints.items()}
        fields = msgspec.structs.fields(struct)
        self._required = [field.name for field in fields if field.required]

    @property
    def names(self) -> list[str]:
        return list(self._decoders)

    def read(self, fields: dict[str, msgspec.Raw]) -> T:
        """Raises BodyError naming the first field that is missing, wrong or unknown."""
        for name in fields:
            if name not in self._decoders:
                raise BodyError(
                    f"Unrecognized request argument supplied: {_shorten(name)}."
                    + suggest(name, self.names),
                    _shorten(name),
                )
        for name in self._required:
            if name not in fields:
                raise BodyError(f"Missing required parameter: '{name}'.", name)
        values: dict[str, Any] = {}
        for name, raw in fields.items():
            null = self._null_is_absent and bytes(raw) == b"null"
            if null and name not in self._required:
                continue
            values[name] = self._decode(name, raw)
        return self._struct(**values)

    def _decode(self, name: str, raw: msgspec.Raw) -> object:
        try:
            return self._decoders[name].decode(raw)
        except msgspec.ValidationError as error:
            fault = str(error)
            if _IN_MAPPING.search(fault) and (key := self._faulty_key(name, raw)):
                fault, name = key[1], f"{name}.{_shorten(key[0], 64)}"
            raise _explain(name, fault) from None
        except msgspec.DecodeError as error:
            message = f"Invalid '{name}': it is not valid JSON: {_shorten(str(error))}."
            raise BodyError(message, name) from None

    def _faulty_key(self, name: str, raw: msgspec.Raw) -> tuple[str, str] | None:
        """Of a field that maps keys to values, the first key that is at fault, and how."""
        entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        for key, value in entries.items():
            try:
                self._decoders[name].decode(msgspec.json.encode({key: value}))
            except msgspec.ValidationError as error:
                return key, _IN_MAPPING.sub("", str(error))
        return None


class QueryReader(Generic[T]):
    """Reads a struct from a query: each name once, numbers as they are written."""

    def __init__(self, struct: type[T]) -> None:
        self._struct = struct
        self._kinds = get_type_hints(struct, include_extras=True)
        fields = msgspec.structs.fields(struct)
        self._required = [field.name for field in fields if field.required]

    def read(self, query: Iterable[tuple[str, str]]) -> T:
        """Raises BodyError naming the first parameter that is missing, wrong or unknown."""
        values: dict[str, Any] = {}
        for name, text in query:
            if name not in self._kinds:
                raise BodyError(
                    f"Unrecognized query parameter supplied: {_shorten(name)}."
                    + suggest(name, list(self._kinds)),
                    _shorten(name),
                )
            if name in values:
                raise BodyError(f"The query parameter '{name}' is given twice.", name)
            try:
                values[name] = msgspec.convert(text, self._kinds[name], strict=False)
            except msgspec.ValidationError as error:
                raise _explain(name, str(error)) from None
        for name in self._required:
            if name not in values:
                raise BodyError(f"Missing required query parameter: '{name}'.", name)
        return self._struct(**values)


def _explain(name: str, fault: str) -> BodyError:
    """msgspec's words for a misfit, with the path of the field in OpenAI's style."""
    path = ""
    if match := _PATH.search(fault):
        path = match["path"].replace("[...]", "")
        fault = fault[: match.start()]
    if match := _NAMED_FIELD.match(fault):
        path += f".{match['name']}"
        missing = "missing" in fault[: match.start("name")]
        fault = "the field is required" if missing else "no such field is known"
    param = _shorten(name + path)
    fault = fault[0].lower() + fault[1:].replace(" | null`", "`")
    return BodyError(f"Invalid '{param}': {_shorten(fault)}.", param)


def _shorten(text: str, length: int = 200) -> str:
    return text if len(text) <= length else text[:length] + "…"
