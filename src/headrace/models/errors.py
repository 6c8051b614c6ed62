"""What the models room raises."""

from __future__ import annotations

from pathlib import Path


class ModelFileError(ValueError):
    """A model file that cannot be served; the sentence names the file, the place and the fault.

    path: the file. fault: the sentence without the file.
    """

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"{path}: {fault}")
        self.path = path
        self.fault = fault


class CatalogueError(Exception):
    """A model that is not known or cannot be had; a sentence saying what to do where there is
    something to do."""
