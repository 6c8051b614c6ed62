"""Small files of an installation that are made once and never change."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from tempfile import NamedTemporaryFile
from uuid import UUID

from headrace.store.errors import StoreError
from headrace.store.ids import uuid7

PEPPER_BYTES = 32


def read_pepper(data_dir: Path) -> bytes:
    """The secret under which keys are hashed; made at the first call. Whoever moves or shares
    the database must bring it along, or every key becomes unknown.

    Raises:
        StoreError: the file holds something else.
    """
    path = data_dir / "pepper"
    try:
        pepper = bytes.fromhex(_read_or_make(path, secrets.token_hex(PEPPER_BYTES)))
    except ValueError:
        pepper = b""
    if len(pepper) != PEPPER_BYTES:
        raise StoreError(f"{path} is damaged: it should hold {PEPPER_BYTES} bytes in hexadecimal")
    return pepper


def read_edge(data_dir: Path) -> UUID:
    """The identity of this installation, by which it knows its own charges; made at the first
    call.

    Raises:
        StoreError: the file holds something else.
    """
    path = data_dir / "edge"
    try:
        return UUID(_read_or_make(path, str(uuid7())))
    except ValueError:
        raise StoreError(f"{path} is damaged: it should hold a UUID") from None


def _read_or_make(path: Path, text: str) -> str:
    """The text in the file, which appears whole and for its owner only; of several processes
    the first decides."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-") as draft:
            draft.write(text + "\n")
            draft.flush()
            os.fsync(draft.fileno())
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(draft.name)
    return path.read_text().strip()
