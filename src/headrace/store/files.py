"""Small files of an installation, and who may read what lies in its data directory."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile
from uuid import UUID

import structlog

from headrace.store.errors import StoreError
from headrace.store.ids import uuid7

PEPPER_BYTES = 32

log = structlog.get_logger("headrace.store")


def make_private_folder(path: Path) -> None:
    """Make the folder, or take other users' rights to it away, whatever the umask is. A log line
    tells of a mode that was repaired.

    Raises:
        StoreError: it belongs to somebody else, or all users share it, such as /tmp.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & stat.S_ISVTX:
        raise StoreError(f"{path} is a folder that all users share; give Headrace one of its own")
    _make_private(path, 0o700)


def make_private_files(*paths: Path) -> None:
    """As `make_private_folder`, of those of these files that there are."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            _make_private(path, 0o600)


def create_private_file(path: Path) -> None:
    """Make an empty file that its owner alone may read, if there is none."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.fchmod(descriptor, 0o600)  # the umask may have taken bits away
        os.close(descriptor)


def write_private_file(path: Path, text: str) -> None:
    """Write a line to a file that its owner alone may read, in place of any that there is."""
    path.unlink(missing_ok=True)
    create_private_file(path)
    path.write_text(f"{text}\n")


def _make_private(path: Path, mode: int) -> None:
    found = stat.S_IMODE(path.stat().st_mode)
    if not found & 0o077:
        return
    try:
        path.chmod(mode)
    except PermissionError:
        raise StoreError(
            f"other users may read {path} (mode {found:o}), and it is not ours to change: "
            f"chmod {mode:o} it as its owner"
        ) from None
    log.warning("mode_repaired", path=str(path), before=f"{found:04o}", after=f"{mode:04o}")


def find_pepper(data_dir: Path) -> bytes | None:
    """The secret under which keys are hashed; None if there is no file of it.

    Raises:
        StoreError: the file holds something else.
    """
    path = pepper_path(data_dir)
    return _pepper(path, _text(path)) if path.exists() else None


def make_pepper(data_dir: Path) -> bytes:
    """As `find_pepper`, but the file is made if there is none; of several processes the first
    decides."""
    path = pepper_path(data_dir)
    return _pepper(path, _read_or_make(path, secrets.token_hex(PEPPER_BYTES)))


def pepper_path(data_dir: Path) -> Path:
    return data_dir / "pepper"


def _pepper(path: Path, text: str) -> bytes:
    try:
        pepper = bytes.fromhex(text)
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
    return _text(path)


def _text(path: Path) -> str:
    """What is in the file. Bytes that are no text become U+FFFD, which no file of ours has."""
    return path.read_text(errors="replace").strip()
