"""Reads the body of a request for answers, strictly, and without doing anything twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from headrace.api.body import (
    BYTE_ORDER_MARK,
    BodyError,
    FieldReader,
    check_keys,
    check_structure,
    split_fields,
)

R = TypeVar("R", bound=msgspec.Struct)

Neutral = Mapping[str, tuple[str, ...] | None]
"""Values (as compact JSON) by which a parameter changes nothing, so that they are accepted, as
null is. None: any value, since the parameter says nothing without another one that is refused.
All other values of a parameter that the request's struct does not have are refused."""


class RequestReader(Generic[R]):
    """Reads a body in one go where it is as it should be; else field by field, which takes null
    for absent and tells what is wrong."""

    def __init__(self, struct: type[R], neutral: Neutral) -> None:
        self._whole = msgspec.json.Decoder(struct)
        self._fields = FieldReader(struct)
        self._neutral = neutral

    def read(self, body: bytes) -> R:
        """Raises BodyError naming the field that is at fault."""
        body = body.removeprefix(BYTE_ORDER_MARK)
        check_structure(body)
        try:
            text = body.decode()
            request = self._whole.decode(body)
        except (UnicodeDecodeError, msgspec.DecodeError):
            return self.read_fields(body)
        check_keys(text)
        return request

    def read_fields(self, body: bytes) -> R:
        fields = split_fields(body)
        for name in [name for name in fields if name in self._neutral]:
            values = self._neutral[name]
            if values is None or _is_one_of(fields[name], values):
                del fields[name]
            elif name not in self._fields.names:
                raise unsupported(name, values)
        return self._fields.read(fields)


def unsupported(param: str, values: tuple[str, ...] = ()) -> BodyError:
    """values: those that are accepted, as compact JSON."""
    but = f", except as {' or '.join(values)}" if values else ""
    return BodyError(f"The parameter '{param}' is not supported by this server{but}.", param)


def _is_one_of(raw: msgspec.Raw, values: tuple[str, ...]) -> bool:
    """Whether it is null or one of the values; 1.0 is 1."""
    try:
        value: Any = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return False
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value is None or msgspec.json.encode(value).decode() in values
