"""Downloads: what errors say before anything is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.models.download import fetch
from headrace.models.errors import CatalogueError
from headrace.models.sources import parse_source


def ignore(*_: object) -> None:
    pass


def test_a_full_disk_is_known_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(CatalogueError, match="2,000 bytes are needed and 10 are free"):
        fetch(parse_source("pypi:a"), tmp_path, 2000, ignore)
