"""Locks by which a data directory and a database file have one service at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import URL

from headrace.store.errors import StoreError
from headrace.store.files import make_private_folder


@contextmanager
def only_service(data_dir: Path, url: URL) -> Iterator[None]:
    """Within the block, be the only service on this data directory and on its SQLite file, wherever
    that lies. Services with data directories of their own may share a database on PostgreSQL.

    Raises:
        StoreError: another process holds a lock, which the message names; or the directory cannot
            be kept from other users.
    """
    make_private_folder(data_dir)
    with ExitStack() as held:
        held.enter_context(locked(data_dir / "lock", f"the data directory {data_dir}"))
        file = Path(str(url.database))
        if url.drivername == "sqlite" and file.parent.resolve() != data_dir.resolve():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(locked(Path(f"{file}.lock"), f"the database {file}"))
        yield


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file within the block. It says which process holds it and since when. The
    kernel frees the lock when that process ends, however it ends; the file stays.

    Raises:
        StoreError: another process holds it.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # the umask may have taken bits away
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            raise StoreError(
                f"another service uses {what}: {holder or 'a process that just began'}; "
                "stop it, or give this service a data_dir and a database of its own"
            ) from None
        now = datetime.now(UTC).isoformat(timespec="seconds")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, since {now}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
