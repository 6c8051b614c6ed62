"""The GGUF reader: what it gives for good files, and that it refuses every other."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.models.errors import ModelFileError
from headrace.models.gguf import read_gguf
from tests.models.raw_gguf import (
    ARRAY,
    BOOL,
    Q8_0,
    STRING,
    U32,
    array,
    gguf_bytes,
    key_value,
    tensor,
    text,
    u32,
    u64,
)


@pytest.fixture
def good_file(tmp_path: Path) -> Path:
    """Every value type, written by the format's own library."""
    path = tmp_path / "good.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("u8", 255)
    writer.add_int8("i8", -128)
    writer.add_uint16("u16", 65535)
    writer.add_int16("i16", -32768)
    writer.add_uint32("u32", 2**32 - 1)
    writer.add_int32("i32", -(2**31))
    writer.add_uint64("u64", 2**64 - 1)
    writer.add_int64("i64", -(2**63))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 1e300)
    writer.add_bool("yes", True)
    writer.add_bool("no", False)
    writer.add_string("string", "déjà vu 😊")
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("reals", [0.5, -1.5])
    writer.add_array("flags", [True, False, True])
    writer.add_array("strings", ["a", "", "日本"])
    writer.add_array("nested", [[1, 2], [3]])
    writer.add_tensor("matrix", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("vector", np.arange(5, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_values_come_back_as_they_were_written(good_file: Path) -> None:
    metadata = dict(read_gguf(good_file).metadata)
    assert metadata.pop("general.architecture") == "llama"
    arrays = {
        key: metadata.pop(key)
        for key, value in list(metadata.items())
        if isinstance(value, np.ndarray)
    }
    assert metadata.pop("strings") == ["a", "", "日本"]
    assert [list(row) for row in metadata.pop("nested")] == [[1, 2], [3]]
    assert metadata == {
        "u8": 255,
        "i8": -128,
        "u16": 65535,
        "i16": -32768,
        "u32": 2**32 - 1,
        "i32": -(2**31),
        "u64": 2**64 - 1,
        "i64": -(2**63),
        "f32": 0.5,
        "f64": 1e300,
        "yes": True,
        "no": False,
        "string": "déjà vu 😊",
    }
    assert metadata["yes"] is True
    assert arrays["numbers"].tolist() == [1, 2, 3]
    assert arrays["reals"].tolist() == [0.5, -1.5]
    assert arrays["flags"].tolist() == [True, False, True]


def test_tensors_have_numpys_shape_and_their_own_bytes(good_file: Path) -> None:
    file = read_gguf(good_file)
    matrix, vector = file.tensors["matrix"], file.tensors["vector"]
    assert (matrix.shape, matrix.type.name) == ((2, 3), "F32")
    assert (vector.shape, vector.type.name) == ((5,), "F16")
    assert file.raw(file.tensors["matrix"]).view("<f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert file.raw(file.tensors["vector"]).view("<f2").tolist() == [0, 1, 2, 3, 4]
    assert not file.raw(file.tensors["matrix"]).flags.writeable


def test_released_tensors_can_still_be_read(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    values = np.arange(1 << 15, dtype=np.float32).reshape(128, 256)
    writer = gguf.GGUFWriter(path, "llama")
    for name in ("first", "second"):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_gguf(path)
    before = file.raw(file.tensors["first"])
    for name in ("first", "second"):
        file.release(file.tensors[name])
    assert np.array_equal(before.view("<f4"), values.ravel())
    assert np.array_equal(file.raw(file.tensors["second"]).view("<f4"), values.ravel())


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(tmp_path: Path, version: int) -> None:
    path = tmp_path / "v.gguf"
    path.write_bytes(gguf_bytes([key_value("k", U32, u32(7))], version=version))
    assert read_gguf(path).metadata == {"k": 7}


def test_the_files_own_alignment_counts(tmp_path: Path) -> None:
    path = tmp_path / "aligned.gguf"
    data = np.array([1, 2], np.float32).tobytes() + bytes(56) + np.float32(3).tobytes()
    path.write_bytes(
        gguf_bytes(
            [key_value("general.alignment", U32, u32(64))],
            [tensor("a", [2]), tensor("b", [1], offset=64)],
            data,
            alignment=64,
        )
    )
    file = read_gguf(path)
    assert file.raw(file.tensors["a"]).view("<f4").tolist() == [1, 2]
    assert file.raw(file.tensors["b"]).view("<f4").tolist() == [3]


BROKEN = {
    "empty file": (b"", "empty"),
    "magic cut off": (b"GG", "truncated: the magic"),
    "another format": (b"PK\3\4" + bytes(64), "not a GGUF file"),
    "git lfs pointer": (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
    "version 1": (gguf_bytes(version=1), "version 1 is not supported"),
    "version 4": (gguf_bytes(version=4), "version 4 is not supported"),
    "big endian": (b"GGUF\0\0\0\3" + bytes(16), "big-endian"),
    "counts cut off": (b"GGUF" + u32(3) + u64(1), "truncated: the number of keys"),
    "key count": (gguf_bytes(key_count=1 << 60), r"\d+ keys cannot fit"),
    "tensor count": (gguf_bytes(tensor_count=1 << 60), r"\d+ tensors cannot fit"),
    "long key": (
        gguf_bytes([u64(1 << 40) + bytes(64)], key_count=1),
        "key 0 has a name of 1099511627776 bytes",
    ),
    "empty key": (gguf_bytes([key_value("", U32, u32(1))]), "key 0 has a name of 0 bytes"),
    "key past the end": (gguf_bytes([u64(1000) + b"k" * 30]), "truncated: name of key 0"),
    "key not utf-8": (gguf_bytes([key_value(b"\xff\xfe", U32, u32(1))]), "key 0 is not valid UTF"),
    "duplicate key": (gguf_bytes([key_value("k", U32, u32(1))] * 2), "'k' occurs twice"),
    "unknown value type": (gguf_bytes([key_value("k", 13, u32(1))]), "'k' has unknown value type"),
    "bool of 2": (gguf_bytes([key_value("k", BOOL, b"\2")]), "'k' holds a bool that is neither"),
    "array bool of 2": (
        gguf_bytes([key_value("k", ARRAY, array(BOOL, [b"\1", b"\2"]))]),
        "'k' holds a bool",
    ),
    "string past the end": (
        gguf_bytes([key_value("k", STRING, u64(1 << 50) + b"abc")]),
        "truncated: value of key 'k'",
    ),
    "string not utf-8": (
        gguf_bytes([key_value("k", STRING, text(b"\xc3("))]),
        "value of key 'k' is not valid UTF-8",
    ),
    "array of numbers too long": (
        gguf_bytes([key_value("k", ARRAY, array(U32, [u32(1)], length=1 << 61))]),
        "truncated: value of key 'k'",
    ),
    "array of strings too long": (
        gguf_bytes([key_value("k", ARRAY, array(STRING, [text("a")], length=1 << 61))]),
        "'k' claims an array of 2305843009213693952 items",
    ),
    "array string past the end": (
        gguf_bytes([key_value("k", ARRAY, array(STRING, [text("a"), u64(1 << 62)]))]),
        "truncated: item 1 of key 'k'",
    ),
    "array of strings cut off": (
        gguf_bytes(
            [key_value("k", ARRAY, array(STRING, [text("abcdefgh")], length=2))], alignment=1
        ),
        "truncated: (item 1 of )?key 'k'",
    ),
    "array string not utf-8": (
        gguf_bytes([key_value("k", ARRAY, array(STRING, [text("a"), text(b"\x80")]))]),
        "item 1 of key 'k' is not valid UTF-8",
    ),
    "array of unknown type": (
        gguf_bytes([key_value("k", ARRAY, array(99, []))]),
        "'k' is an array of unknown type 99",
    ),
    "deep arrays": (
        gguf_bytes([key_value("k", ARRAY, (u32(ARRAY) + u64(1)) * 2000)]),
        "'k' nests arrays more than",
    ),
    "alignment 0": (
        gguf_bytes([key_value("general.alignment", U32, u32(0))]),
        "general.alignment is 0",
    ),
    "alignment 24": (
        gguf_bytes([key_value("general.alignment", U32, u32(24))]),
        "general.alignment is 24",
    ),
    "alignment as text": (
        gguf_bytes([key_value("general.alignment", STRING, text("32"))]),
        "general.alignment is '32'",
    ),
    "duplicate tensor": (
        gguf_bytes([], [tensor("t", [8]), tensor("t", [8], offset=32)], bytes(64)),
        "'t' occurs twice",
    ),
    "no dimensions": (gguf_bytes([], [tensor("t", [])], bytes(64)), "'t' has 0 dimensions"),
    "many dimensions": (
        gguf_bytes([], [tensor("t", [1] * 5)], bytes(64)),
        "'t' has 5 dimensions",
    ),
    "four thousand million dimensions": (
        gguf_bytes([], [tensor("t", [1], rank=2**32 - 1)], bytes(64)),
        "'t' has 4294967295 dimensions",
    ),
    "dimension of zero": (gguf_bytes([], [tensor("t", [4, 0])], bytes(64)), "'t' has a dimension"),
    "size past 2**64": (
        gguf_bytes([], [tensor("t", [1 << 33, 1 << 33])], bytes(64)),
        "tensor 't' ends at byte",
    ),
    "size that wraps to zero": (
        gguf_bytes([], [tensor("t", [32, 1 << 59])], bytes(64)),
        "tensor 't' ends at byte",
    ),
    "unknown type": (
        gguf_bytes([], [tensor("t", [32], 250)], bytes(64)),
        "'t' has unknown type 250",
    ),
    "removed type": (
        gguf_bytes([], [tensor("t", [32], 4)], bytes(64)),
        "'t' has type 4, .* removed",
    ),
    "type of no use here": (
        gguf_bytes([], [tensor("t", [256], 10)], bytes(128)),
        r"'t' has type Q2_K \(10\), which is not supported; .*Q4_1",
    ),
    "row cut through a block": (
        gguf_bytes([], [tensor("t", [33], Q8_0)], bytes(128)),
        "'t' has rows of 33 values",
    ),
    "data cut off": (gguf_bytes([], [tensor("t", [32])], bytes(100)), "truncated: tensor 't'"),
    "offset past the end": (
        gguf_bytes([], [tensor("t", [8], offset=1 << 63)], bytes(32)),
        "truncated: tensor 't'",
    ),
    "offset between alignments": (
        gguf_bytes([], [tensor("t", [8], offset=4)], bytes(64)),
        "'t' is at offset 4, not a multiple of 32",
    ),
    "overlapping tensors": (
        gguf_bytes([], [tensor("a", [16]), tensor("b", [16], offset=32)], bytes(128)),
        "'a' and 'b' overlap",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_the_fault(tmp_path: Path, name: str) -> None:
    data, fault = BROKEN[name]
    path = tmp_path / "broken.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=fault) as refusal:
        read_gguf(path)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"absent\.gguf: cannot be opened: No such file"):
        read_gguf(tmp_path / "absent.gguf")
    with pytest.raises(ModelFileError, match="cannot be opened"):
        read_gguf(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.data())
def test_no_damage_gets_past_the_reader_as_anything_but_a_refusal(
    good_file: Path, data: st.DataObject
) -> None:
    whole = good_file.read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 9))
        replacement = data.draw(
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([b"\xff" * 8, u64(1 << 63), u64(len(whole)), u64(0)]),
            )
        )
        damaged[at : at + len(replacement)] = replacement
    end = data.draw(st.integers(0, len(damaged)) | st.just(len(damaged)))
    path = good_file.with_name("damaged.gguf")
    path.write_bytes(damaged[:end])
    tracemalloc.start()
    try:
        file = read_gguf(path)
    except ModelFileError:
        pass
    else:
        for name, found in file.tensors.items():
            assert len(file.raw(file.tensors[name])) == found.size
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1 << 20


def test_every_cut_is_noticed(good_file: Path) -> None:
    whole = good_file.read_bytes()
    # The file's last bytes are padding after the last tensor's ten.
    file = read_gguf(good_file)
    needed = max(found.start + found.size for found in file.tensors.values())
    path = good_file.with_name("cut.gguf")
    for end in range(needed):
        path.write_bytes(whole[:end])
        with pytest.raises(ModelFileError):
            read_gguf(path)
