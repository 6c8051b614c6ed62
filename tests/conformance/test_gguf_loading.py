"""Public cases GG-01 .. GG-11 (loading): malformed GGUF files are refused, clearly and cheaply.

GG-08, the unknown pre-tokenizer, is the tokenizer's to refuse and tested with it.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.models.errors import ModelFileError
from headrace.models.gguf import read_gguf
from headrace.models.model import open_model
from tests.models.raw_gguf import (
    ARRAY,
    Q8_0,
    STRING,
    U32,
    array,
    gguf_bytes,
    key_value,
    tensor,
    u32,
    u64,
)
from tests.models.tiny import write_tiny

Refuse = Callable[[bytes, str], None]


@pytest.fixture
def refuse(tmp_path: Path) -> Refuse:
    """Asserts that a file of these bytes is refused, naming it and the fault, in under 100 ms
    of processor time and without an allocation that its size does not explain."""

    def check(data: bytes, fault: str) -> None:
        path = tmp_path / "case.gguf"
        path.write_bytes(data)
        tracemalloc.start()
        start = time.thread_time()
        with pytest.raises(ModelFileError, match=fault) as refusal:
            read_gguf(path)
        elapsed = time.thread_time() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert str(path) in str(refusal.value)
        assert elapsed < 0.1
        # The reader's own objects and the exception; never the file's claims.
        assert peak < len(data) + 256 * 1024

    return check


def one_tensor(*dims: int, kind: int = 0, offset: int = 0, data: int = 128) -> bytes:
    return gguf_bytes([], [tensor("t", dims, kind, offset)], bytes(data))


def test_gg_01_truncated_data_names_file_and_tensor(refuse: Refuse) -> None:
    refuse(one_tensor(32, data=64), "truncated: tensor 't'")


def test_gg_02_unknown_and_removed_types_name_tensor_and_type(refuse: Refuse) -> None:
    refuse(one_tensor(32, kind=250), "'t' has unknown type 250")
    refuse(one_tensor(32, kind=4), "'t' has type 4")


def test_gg_03_a_zero_dimension_is_an_error(refuse: Refuse) -> None:
    refuse(one_tensor(4, 0, data=32), "'t' has a dimension of size 0")


def test_gg_04_claimed_sizes_allocate_nothing(refuse: Refuse) -> None:
    refuse(gguf_bytes([u64(0xFFFFFFFFFFFF)], key_count=1), "key 0 has a name|cannot fit")
    refuse(gguf_bytes(key_count=1 << 60), "keys cannot fit")
    refuse(gguf_bytes(tensor_count=1 << 60), "tensors cannot fit")
    tokens = key_value("tokenizer.ggml.tokens", ARRAY, array(STRING, [], length=1 << 61))
    refuse(gguf_bytes([tokens], alignment=1), "'tokenizer.ggml.tokens' claims an array")


def test_gg_06_ambiguous_files_are_not_read(refuse: Refuse) -> None:
    key = key_value("k", U32, u32(1))
    refuse(gguf_bytes([key_value("", U32, u32(1))]), "key 0 has a name of 0 bytes")
    refuse(gguf_bytes([key, key]), "'k' occurs twice")
    twice = [tensor("t", [8]), tensor("t", [8], offset=32)]
    refuse(gguf_bytes([], twice, bytes(64)), "'t' occurs twice")
    overlapping = [tensor("a", [16]), tensor("b", [16], offset=32)]
    refuse(gguf_bytes([], overlapping, bytes(128)), "'a' and 'b' overlap")
    refuse(one_tensor(8, offset=4), "offset 4, not a multiple of 32")
    refuse(gguf_bytes([key_value("general.alignment", U32, u32(0))]), "general.alignment is 0")
    refuse(gguf_bytes([key_value("general.alignment", U32, u32(3))]), "general.alignment is 3")
    bomb = key_value("a", ARRAY, (u32(ARRAY) + u64(1)) * 200)
    refuse(gguf_bytes([bomb]), "'a' nests arrays")


def test_gg_11_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", without=["blk.1.ffn_up.weight"])
    with pytest.raises(ModelFileError, match=r"tensor 'blk\.1\.ffn_up\.weight' is missing"):
        open_model(path)


def test_gg_11_extra_tensors_are_ignored_and_named(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", extra={"blk.9.odd.weight": (4, 32)})
    (named,) = open_model(path).ignored
    assert "odd.weight" in named


def test_every_public_malformed_file_is_refused(refuse: Refuse, suites: Path) -> None:
    files: dict[str, str] = json.loads((suites / "gguf_malformed_hex.json").read_text())
    assert len(files) >= 24
    for content in files.values():
        refuse(bytes.fromhex(content), r"\w+")


def test_rows_that_blocks_do_not_divide(refuse: Refuse) -> None:
    refuse(one_tensor(33, kind=Q8_0), "'t' has rows of 33 values")
