"""Beginnings of prompts that the operator published, so that all tenants share their cache."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from headrace.edge.services import Prompts
from headrace.text.template import TemplateError


class PublishedPrefixes:
    """Tenants never learn of each other's prompts, by timing either, but for these: whether one
    of them is in the cache tells at most that somebody used what was published."""

    def __init__(self, prefixes: Iterable[Sequence[int]] = ()) -> None:
        self._prefixes = [list(prefix) for prefix in prefixes]

    @classmethod
    def of_texts(cls, texts: Iterable[str], prompts: Prompts) -> PublishedPrefixes:
        """Each text as the system message of a chat, if the model's template has one, and as the
        beginning of a completion's prompt."""
        prefixes = []
        for text in texts:
            prefixes.append(prompts.completion(text))
            with contextlib.suppress(TemplateError):
                prefixes.append(_system_prefix(text, prompts))
        return cls(prefixes)

    def shared_by(self, ids: Sequence[int]) -> int:
        """How many of the first tokens of a prompt are published."""
        return max([_common(prefix, ids) for prefix in self._prefixes], default=0)


def read_texts(folder: Path) -> list[str]:
    """The texts of a folder's *.txt files. Raises OSError or UnicodeDecodeError."""
    files = sorted(path for path in folder.iterdir() if path.suffix == ".txt")
    return [path.read_text("utf-8") for path in files]


def _system_prefix(text: str, prompts: Prompts) -> list[int]:
    """What all chats with that system message begin with, whatever the user says."""
    chats = [
        prompts.chat(
            [{"role": "system", "content": text}, {"role": "user", "content": word}], variables={}
        )
        for word in ("a", "B", "1")
    ]
    return chats[0][: min(_common(one, other) for one, other in pairwise(chats))]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    size = min(len(one), len(other))
    return next((i for i in range(size) if one[i] != other[i]), size)
