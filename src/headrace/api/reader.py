"""Reads the body of a request for answers, strictly, and without doing anything twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from headrace.api.body import BodyError, FieldReader, check_structure, split_fields

R = TypeVar("R", bound=msgspec.Struct)

Unsupported = Mapping[str, tuple[str, ...]]
"""Parameters of an API that change the answer and that we cannot honour yet, each with the
values (as compact JSON) that ask for what we do anyway, which are let through."""


class RequestReader(Generic[R]):
    """Reads a body in one go where it is as it should be; else field by field, which takes null
    for absent and tells what is wrong."""

    def __init__(self, struct: type[R], unsupported: Unsupported) -> None:
        self._whole = msgspec.json.Decoder(struct)
        self._fields = FieldReader(struct)
        self._unsupported = unsupported

    def read(self, body: bytes) -> R:
        """Raises BodyError naming the field that is at fault."""
        check_structure(body)
        try:
            body.decode()
            return self._whole.decode(body)
        except (UnicodeDecodeError, msgspec.DecodeError):
            return self.read_fields(body)

    def read_fields(self, body: bytes) -> R:
        fields = split_fields(body)
        for name in [name for name in fields if name in self._unsupported]:
            if not _asks_for_nothing(fields.pop(name), self._unsupported[name]):
                raise unsupported(name)
        return self._fields.read(fields)


def unsupported(param: str) -> BodyError:
    return BodyError(f"The parameter '{param}' is not supported by this server yet.", param)


def _asks_for_nothing(raw: msgspec.Raw, values: tuple[str, ...]) -> bool:
    try:
        value: Any = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return False
    return value is None or msgspec.json.encode(value).decode() in values
