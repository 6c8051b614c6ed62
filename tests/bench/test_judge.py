from __future__ import annotations

import json

import pytest

from schemas import SCHEMAS
from schemas.judge import fault
from schemas.parts import DATE, between, integer, many, one_of, only, record, text

SCHEMA = record(
    {
        "on": DATE,
        "counts": many(integer(1, 9), 2, 3),
        "how": one_of(
            record({"by": only("a"), "note": text(4)}),
            record({"by": only("b"), "size": integer()}),
        ),
    }
)
VALID = '{"on":"2024-02-29","counts":[1,2],"how":{"by":"b","size":7}}'


def test_there_are_two_hundred_different_ones() -> None:
    assert len({json.dumps(schema) for schema in SCHEMAS.values()}) == 200


def test_what_is_valid_is_no_fault_and_no_beginning_of_it_is() -> None:
    assert fault(SCHEMA, VALID, "stop") is None
    for end in range(len(VALID)):
        assert fault(SCHEMA, VALID[:end], "length") is None
    assert fault(record({"x": between(0, 1)}), '{"x":0.0', "length") is None


@pytest.mark.parametrize(
    "text",
    [
        VALID[:-1],
        VALID.replace("2024", "2023"),  # that year had no such day
        VALID.replace("[1,2]", "[1]"),
        VALID.replace("7", "NaN"),
        VALID.replace('"b"', '"a"'),
        VALID + "}",
    ],
)
def test_what_is_not_valid_is_a_fault(text: str) -> None:
    assert fault(SCHEMA, text, "stop") is not None


@pytest.mark.parametrize(
    "text",
    [
        "I think",
        '{"on":"2023-02-29",',
        '{"on":"2024-02-29","counts":[1,12,',
        '{"on":"2024-02-29","else":1,',
        '{"on":"2024-02-29",' + " " * 40,
    ],
)
def test_what_begins_wrong_is_a_fault(text: str) -> None:
    assert fault(SCHEMA, text, "length") is not None


def test_only_two_ends_are_good() -> None:
    assert fault(SCHEMA, VALID, "error") is not None
