"""The safetensors files of a checkpoint: one, or several and an index that says which tensor
is in which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.models.errors import ModelFileError
from headrace.models.jsonfile import read_object
from headrace.models.safetensors import SafetensorsFile, read_safetensors

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


def shard_paths(folder: Path) -> list[Path]:
    """The files that hold the tensors, whether or not they are there. Raises ModelFileError if
    the folder has neither an index nor a single file, or the index is none."""
    if (folder / INDEX).is_file():
        return sorted({folder / name for name in _weight_map(folder).values()})
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    raise ModelFileError(folder, f"has neither {INDEX} nor {SINGLE}")


def read_shards(folder: Path) -> dict[str, SafetensorsFile]:
    """Tensor name -> the file that holds it, every file checked.

    Where there is an index it decides, whatever else the files hold. Raises ModelFileError
    naming a file that is missing, or a tensor that is not where the index has it.
    """
    files = {path.name: read_safetensors(path) for path in shard_paths(folder)}
    if not (folder / INDEX).is_file():
        (file,) = files.values()
        return dict.fromkeys(file.tensors, file)
    return dict(_indexed(folder, files))


def _indexed(
    folder: Path, files: Mapping[str, SafetensorsFile]
) -> Iterator[tuple[str, SafetensorsFile]]:
    for tensor, name in _weight_map(folder).items():
        if tensor not in files[name].tensors:
            raise ModelFileError(
                files[name].path, f"tensor {tensor!r} is missing, which {INDEX} says is here"
            )
        yield tensor, files[name]


def _weight_map(folder: Path) -> dict[str, str]:
    path = folder / INDEX
    weight_map = read_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFileError(path, "'weight_map' must be an object of tensor -> file")
    for tensor, name in weight_map.items():
        # The index is input: it must not lead out of the folder.
        if not isinstance(name, str) or Path(name).name != name or not name:
            raise ModelFileError(path, f"tensor {tensor!r} is in {name!r}, which is no file name")
    return weight_map
