"""Public case SF-01: malformed safetensors headers are refused, naming file and tensor."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path

import pytest

from headrace.models.errors import ModelFileError
from headrace.models.safetensors import read_safetensors


def header(length: int | None = None, data: int = 0, **tensors: tuple[str, list[int], int, int]):
    """A file of tensors name=(dtype, shape, begin, end); `length` is what it claims to have."""
    text = json.dumps(
        {
            name: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
            for name, (dtype, shape, begin, end) in tensors.items()
        }
    ).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + bytes(data)


def check_refused(path: Path, data: bytes, fault: str) -> None:
    path.write_bytes(data)
    tracemalloc.start()
    start = time.thread_time()
    with pytest.raises(ModelFileError, match=fault) as refusal:
        read_safetensors(path)
    elapsed = time.thread_time() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in str(refusal.value)
    assert elapsed < 1
    assert peak < len(data) + 256 * 1024


CASES = {
    "header length 2**63": (header(1 << 63), "header claims 9223372036854775808"),
    "header past the end": (header(100), "header claims 100"),
    "range past the end": (
        header(t=("F32", [1000, 1000], 0, 4_000_000), data=4),
        "truncated: tensor 't'",
    ),
    "shape against size": (header(t=("F32", [1000, 1000], 0, 4), data=4), "'t' of shape"),
    "begin after end": (header(t=("F32", [1], 4, 0), data=4), "'t' begins at 4"),
    "overlap": (header(a=("F32", [2], 0, 8), b=("F32", [2], 4, 12), data=12), "'b' overlaps"),
    "hole": (header(a=("F32", [1], 4, 8), data=8), "hole of 4 bytes lies before tensor 'a'"),
    "trailing bytes": (header(a=("F32", [1], 0, 4), data=8), "4 bytes follow"),
    "unknown dtype": (header(a=("F7", [1], 0, 1), data=1), "'a' has unknown dtype 'F7'"),
    "not JSON": (b"\3" + bytes(7) + b"{x}", "not valid JSON"),
    "JSON array": (b"\2" + bytes(7) + b"[]", "not a JSON object"),
    "shape overflow": (header(a=("F32", [1 << 32, 1 << 32], 0, 0)), "'a' of shape"),
}


@pytest.mark.parametrize("name", CASES)
def test_sf_01_malformed_header(tmp_path: Path, name: str) -> None:
    check_refused(tmp_path / "case.safetensors", *CASES[name])


def test_sf_01_every_public_malformed_file_is_refused(tmp_path: Path, suites: Path) -> None:
    files: dict[str, str] = json.loads((suites / "safetensors_malformed_hex.json").read_text())
    assert len(files) >= 12
    for content in files.values():
        check_refused(tmp_path / "case.safetensors", bytes.fromhex(content), r"\w+")
