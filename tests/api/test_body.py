from __future__ import annotations

import json
import re
import tracemalloc
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from headrace.api import body as body_module
from headrace.api.body import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_VALUES,
    BodyError,
    Bounds,
    FieldReader,
    TooComplex,
    check_keys,
    check_structure,
    split_fields,
)


class Order(msgspec.Struct):
    model: str
    count: Annotated[int, Meta(ge=1, le=9)] = 1
    ratio: float | None = None


READER = FieldReader(Order)


def read(text: str) -> Order:
    return READER.read(split_fields(text.encode()))


def refusal(body: bytes | str) -> BodyError:
    raw = body.encode() if isinstance(body, str) else body
    with pytest.raises(BodyError) as caught:
        READER.read(split_fields(raw))
    return caught.value


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('a[]{}"\\é'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('k{"\\]'), inner, max_size=3)
    ),
    max_leaves=30,
)


@given(json_values, st.integers(0, 80))
def test_depth_is_what_a_parser_would_find(value: object, levels: int) -> None:
    for _ in range(levels):
        value = [value, "[[[", 1]
    body = json.dumps(value).encode()
    if depth(value) > 64:
        with pytest.raises(BodyError, match="64 levels"):
            check_structure(body)
    else:
        check_structure(body)


@pytest.mark.parametrize("unit", [b"[", b"[]", b"[[],[]],", b'{"a":', b"]"])
def test_brackets_without_end_are_refused_fast(unit: bytes) -> None:
    body = unit * (4_000_000 // len(unit))
    assert refusal(body).message


def test_an_unclosed_nest_is_refused_too() -> None:
    assert "64 levels" in refusal(b'{"model":' + b"[" * 500).message


def test_too_many_containers_are_refused() -> None:
    assert "100000" in refusal(b'{"model":[' + b"[]," * MAX_CONTAINERS + b"[]]}").message


def test_a_long_text_full_of_brackets_is_no_nest() -> None:
    assert read(json.dumps({"model": '[{"' * 200_000})).model == '[{"' * 200_000


@given(st.binary(max_size=80))
def test_any_bytes_are_an_order_or_a_refusal(body: bytes) -> None:
    try:
        READER.read(split_fields(body))
    except BodyError as error:
        assert error.message


@pytest.mark.parametrize("body", ["", "  ", "{", '{"model":"m",}', '{"model":"m"}}', '{"a":NaN}'])
def test_broken_json_is_called_so(body: str) -> None:
    assert "not valid JSON" in refusal(body).message


@pytest.mark.parametrize("body", ["[]", '"x"', "null", "123", "true"])
def test_only_an_object_will_do(body: str) -> None:
    assert "must be a JSON object" in refusal(body).message


def test_invalid_utf8_is_refused_wherever_it_stands() -> None:
    assert "UTF-8 (byte 10)" in refusal(b'{"model":"\xff"}').message
    assert "UTF-8" in refusal(b'{"model":"m","other\xc3":1}').message


def test_null_is_absent_where_a_field_is_optional_only() -> None:
    assert read('{"model":"m","count": null ,"ratio":null}') == Order("m")
    assert refusal('{"model":null}').param == "model"


def test_faults_name_their_field() -> None:
    missing = refusal("{}")
    assert (missing.param, missing.message) == ("model", "Missing required parameter: 'model'.")
    assert refusal('{"model":"m","count":0}').param == "count"
    unknown = refusal('{"model":"m","cuont":2}')
    assert unknown.param == "cuont"
    assert "Did you mean 'count'?" in unknown.message


@pytest.mark.parametrize("value", ['"3"', "true", "3.0", "3.7", "1e1", "1e30", "[3]", "1" * 300])
def test_nothing_is_cast_to_an_integer(value: str) -> None:
    assert refusal(f'{{"model":"m","count":{value}}}').param == "count"


@pytest.mark.parametrize("value", ['"0.5"', "true", "1e999", "-1e999"])
def test_nothing_is_cast_to_a_number(value: str) -> None:
    assert refusal(f'{{"model":"m","ratio":{value}}}').param == "ratio"


def test_messages_quote_little_of_what_was_sent() -> None:
    assert len(refusal(json.dumps({"model": "m", "x" * 100_000: 1})).message) < 400


def test_a_byte_order_mark_is_skipped() -> None:
    assert READER.read(split_fields(b"\xef\xbb\xbf" + b'{"model":"m"}')) == Order("m")


@pytest.mark.parametrize(
    ("body", "half", "byte"),
    [
        (rb'{"model":"\ud83d"}', r"\ud83d", 10),
        (rb'{"model":"\ud83d\ude00\ude00"}', r"\ude00", 22),
        (rb'{"model":"m","other":{"a":["\\\uD800x"]}}', r"\uD800", 30),
        (rb'{"mod\udfff":1}', r"\udfff", 5),
    ],
)
def test_half_of_a_surrogate_pair_is_named_with_its_place(
    body: bytes, half: str, byte: int
) -> None:
    assert f"half of a surrogate pair, {half}, at byte {byte}:" in refusal(body).message


def test_what_only_looks_like_a_surrogate_is_text() -> None:
    assert read(r'{"model":"\\ud800 \ud83d\ude00"}') == Order("\\ud800 \U0001f600")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ('{"model":"a","model":"b"}', "model"),
        ('{"model":"a","mod\\u0065l":"b"}', "model"),
        ('{"model":"a","count":1,"ratio":[{"x":1,"y":{},"y":2}]}', "y"),
    ],
)
def test_a_key_that_is_twice_in_an_object_is_refused_by_its_name(body: str, key: str) -> None:
    refused = refusal(body)
    assert refused.param == key
    assert f"'{key}' is twice" in refused.message


def test_one_key_in_two_objects_is_none_that_is_twice() -> None:
    READER.read(split_fields(b'{"model":"{\\"a\\":1,\\"a\\":1}","count":1}'))
    split_fields(b'{"a":{"b":1},"c":{"b":1},"d":[{"b":1},{"b":' + b"9" * 5000 + b"}]}")


def test_more_values_than_a_long_prompt_of_ids_has_are_refused() -> None:
    values = b"1," * MAX_VALUES
    check_structure(b'{"prompt": [' + values[:-1] + b"]}")
    with pytest.raises(BodyError, match=f"more than {MAX_VALUES} values"):
        check_structure(b'{"prompt": [' + values + b"1]}")
    check_structure(b'{"prompt": "' + values + b'"}')


def longest_run(value: object) -> int:
    """The most values side by side between two brackets, as written by json.dumps."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '"', json.dumps(value))
    return max(len(run.split(",")) for run in re.split(r"[\[\]{}]", text))


@given(json_values, st.integers(1, 3), st.integers(1, 16))
def test_items_are_counted_between_brackets_and_across_blocks(
    value: object, items: int, block: int
) -> None:
    body = json.dumps([value, [[]] * (MAX_DEPTH + 1)]).encode()
    bounds = Bounds(items=items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_module, "_BLOCK", block)
        if depth(value) + 1 > MAX_DEPTH:
            return
        if longest_run([value, [[]] * (MAX_DEPTH + 1)]) > items:
            with pytest.raises(TooComplex, match=f"more than {items} items"):
                check_structure(body, bounds)
        else:
            check_structure(body, bounds)


def test_a_list_of_more_items_than_its_bound_is_refused_without_other_brackets() -> None:
    bounds = Bounds(items=1000)
    check_structure(b'{"prompt": [' + b"1," * 999 + b"1]}", bounds)
    check_structure(b'{"prompt": "' + b"1," * 2000 + b'"}', bounds)
    with pytest.raises(TooComplex, match="more than 1000 items"):
        check_structure(b'{"prompt": [' + b"1," * 1000 + b"1]}", bounds)


def test_more_containers_than_their_bound_are_refused() -> None:
    bounds = Bounds(containers=100)
    check_structure(b"[" + b"{}," * 98 + b"{}]", bounds)
    with pytest.raises(TooComplex, match="more than 100 arrays and objects"):
        check_structure(b"[" + b"{}," * 99 + b"{}]", bounds)


def test_a_body_too_short_for_more_than_its_bounds_passes_none() -> None:
    bounds = Bounds(containers=100, items=50)
    assert not bounds.may_be_passed_by(b"1," * 49)
    assert bounds.may_be_passed_by(b"1," * 50)


def test_keys_beside_long_lists_of_numbers_are_told_apart() -> None:
    numbers = "1, " * 2000
    check_keys(f'{{"[{numbers}1]": 1, "[{numbers}2]": 2, "a": [{numbers}1]}}')
    with pytest.raises(BodyError, match="is twice"):
        check_keys(f'{{"[{numbers}1]": 1, "[{numbers}1]": [{numbers}1]}}')
    with pytest.raises(BodyError, match="'a' is twice"):
        check_keys(f'{{"a": [{numbers}1], "a": [{numbers}2]}}')


def test_a_list_of_numbers_takes_no_room_while_keys_are_checked() -> None:
    text = '{"prompt": [' + "70000, " * 300_000 + "1]}"
    tracemalloc.start()
    check_keys(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(text)  # as numbers in a list they take five times as much


def test_a_body_of_nothing_but_quotes_is_checked_in_little_memory() -> None:
    body = b"[]," * 65 + b'"' * 8_000_000
    tracemalloc.start()
    check_structure(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(body)


def test_a_key_given_twice_is_found_beside_an_integer_of_any_length() -> None:
    check_keys('{"a": ' + "1" * 5000 + "}")
    with pytest.raises(BodyError, match="'a' is twice"):
        check_keys('{"n": ' + "1" * 5000 + ', "a": 1, "a": 2}')
