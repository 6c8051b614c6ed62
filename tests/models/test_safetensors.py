"""The safetensors reader: dense tensors come back, and no broken header is followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from headrace.models.errors import ModelFileError
from headrace.models.safetensors import read_safetensors
from headrace.ops.weights import DenseWeight


def stored(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(begin: int, end: int, shape: object = (1,), dtype: object = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_dense_tensors_come_back_whatever_their_alignment(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "single": torch.randn(3, 5, generator=generator),
        "half": torch.randn(7, generator=generator).to(torch.float16),
        "brain": torch.randn(2, 3, generator=generator).to(torch.bfloat16),
        "byte": torch.ones(3, dtype=torch.uint8),
    }
    save_file(tensors, path, metadata={"format": "pt"})

    file = read_safetensors(path)

    assert file.metadata == {"format": "pt"}
    for name in ("single", "half", "brain"):
        weight = file.load(name)
        assert isinstance(weight, DenseWeight)
        assert weight.values.dtype == np.float32
        np.testing.assert_array_equal(weight.values, tensors[name].float().numpy())
    with pytest.raises(ModelFileError, match="'byte' is U8; only F32, F16, BF16 can be read"):
        file.load("byte")
    with pytest.raises(KeyError):
        file.load("absent")


def test_odd_offsets_are_read(tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    header = {"pad": entry(0, 1, [1], "U8"), "t": entry(1, 9, [2])}
    path.write_bytes(stored(header, b"\0" + np.array([1, 2], np.float32).tobytes()))
    weight = read_safetensors(path).load("t")
    assert isinstance(weight, DenseWeight)
    assert weight.values.tolist() == [1, 2]


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "nan.safetensors"
    path.write_bytes(stored({"t": entry(0, 4)}, np.float32(np.nan).tobytes()))
    with pytest.raises(ModelFileError, match="tensor 't' holds values that are not finite"):
        read_safetensors(path).load("t")


BROKEN = {
    "empty": (b"", "empty"),
    "seven bytes": (b"\1" * 7, "truncated: 7 bytes"),
    "header of 2**63": (b"\0" * 7 + b"\x80{}", "truncated: the header claims 9223372036854775808"),
    "header past the end": (b"\x64" + b"\0" * 7 + b"{}", "truncated: the header claims 100"),
    "not json": (stored(b"{x}"), "not valid JSON"),
    "not utf-8": (stored(b'{"\xff": 1}'), "not valid JSON"),
    "a list": (stored([]), "not a JSON object"),
    "deep nesting": (stored(b'{"a":' + b"[" * 100_000), "nested too deeply|not valid JSON"),
    "nan": (stored(b'{"a": NaN}'), "NaN is not JSON"),
    "a huge number": (stored(b'{"a": ' + b"9" * 10_000 + b"}"), "not valid JSON"),
    "duplicate": (stored(b'{"t": {}, "t": {}}'), "'t' occurs twice"),
    "metadata not an object": (stored({"__metadata__": [1]}), "'__metadata__' is not"),
    "metadata not text": (stored({"__metadata__": {"a": 1}}), "'__metadata__' key 'a'"),
    "tensor not an object": (stored({"t": 1}), "'t' must have exactly"),
    "field missing": (stored({"t": {"dtype": "F32", "shape": [1]}}), "'t' must have exactly"),
    "field too many": (stored({"t": entry(0, 4) | {"x": 1}}, bytes(4)), "'t' must have exactly"),
    "unknown dtype": (stored({"t": entry(0, 1, [1], "F7")}, b"\0"), "'t' has unknown dtype 'F7'"),
    "dtype not text": (stored({"t": entry(0, 1, [1], [])}, b"\0"), r"unknown dtype \[\]"),
    "shape not a list": (stored({"t": entry(0, 4, 1)}, bytes(4)), "'t' has shape 1"),
    "negative size": (stored({"t": entry(0, 4, [-1])}, bytes(4)), r"'t' has shape \[-1\]"),
    "boolean size": (stored({"t": entry(0, 4, [True])}, bytes(4)), r"'t' has shape \[True\]"),
    "many dimensions": (stored({"t": entry(0, 4, [1] * 9)}, bytes(4)), "at most 8 sizes"),
    "one offset": (
        stored({"t": {"dtype": "F32", "shape": [1], "data_offsets": [4]}}, bytes(4)),
        "'t' has data_offsets",
    ),
    "end before begin": (stored({"t": entry(4, 0)}, bytes(4)), "'t' begins at 4, after its end 0"),
    "shape against size": (
        stored({"t": entry(0, 4, [1000, 1000])}, bytes(4)),
        "'t' of shape .* needs 4000000 bytes",
    ),
    "shape past 2**64": (
        stored({"t": entry(0, 0, [2**32, 2**32])}),
        "'t' of shape .* needs 73786976294838206464 bytes",
    ),
    "past the end": (
        stored({"t": entry(0, 4_000_000, [1000, 1000])}, bytes(4)),
        "truncated: tensor 't' ends",
    ),
    "overlap": (
        stored({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, bytes(12)),
        "'b' overlaps",
    ),
    "hole at the start": (stored({"t": entry(4, 8)}, bytes(8)), "a hole of 4 bytes"),
    "hole in the middle": (
        stored({"a": entry(0, 4), "b": entry(8, 12)}, bytes(12)),
        "a hole of 4 bytes lies before tensor 'b'",
    ),
    "bytes left over": (stored({"t": entry(0, 4)}, bytes(8)), "4 bytes follow the last tensor"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_the_fault(tmp_path: Path, name: str) -> None:
    data, fault = BROKEN[name]
    path = tmp_path / "broken.safetensors"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=fault) as refusal:
        read_safetensors(path)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be opened"):
        read_safetensors(tmp_path / "absent.safetensors")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["t", "__metadata__", "dtype", "shape", "data_offsets"]), inner
            )
        ),
    )
)
def test_no_header_gets_past_the_reader_as_anything_but_a_refusal(
    tmp_path: Path, header: object
) -> None:
    path = tmp_path / "any.safetensors"
    path.write_bytes(stored(header))
    if isinstance(header, dict) and header in ({}, {"__metadata__": {}}):
        assert not read_safetensors(path).tensors
        return
    try:
        file = read_safetensors(path)
    except ModelFileError:
        return
    assert all(tensor.size == 0 for tensor in file.tensors.values())
