"""Whether a file is still the one that was opened."""

from __future__ import annotations

from pathlib import Path

from headrace.store.errors import DatabaseReplaced, DatabaseUnavailable, DiskFails


class SameFile:
    """The file of a database, which other programs may move or replace by mistake."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._found()

    def check(self) -> None:
        """Raises DatabaseReplaced where the path has no file or another one, DatabaseUnavailable
        where the process has no right to look, and DiskFails where that fails otherwise."""
        if self._found() != self._identity:
            raise DatabaseReplaced(f"{self._path} is not the file that was opened")

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise DatabaseUnavailable(str(error)) from error
        except OSError as error:
            raise DiskFails(str(error)) from error
        return found.st_dev, found.st_ino
