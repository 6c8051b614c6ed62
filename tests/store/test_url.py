"""Which database the settings mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.store.errors import StoreError
from headrace.store.url import database_url


def test_by_default_it_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    strange = tmp_path / "50% of #1?"
    url = database_url(None, strange)
    assert url.drivername == "sqlite"
    assert url.database == f"{strange}/headrace.db"


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:////tmp/a.db", "sqlite"),
        ("sqlite+aiosqlite:////tmp/a.db", "sqlite"),
        ("postgres://u@h/n", "postgresql+psycopg"),
        ("postgresql://u@h/n", "postgresql+psycopg"),
        ("postgresql+asyncpg://u@h/n", "postgresql+psycopg"),
    ],
)
def test_the_driver_is_ours_whatever_the_url_says(given: str, driver: str) -> None:
    assert database_url(given, Path("data")).drivername == driver


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("headrace.db", "not a URL"),
        ("mysql://u:hidden@h/n", "'mysql'; use sqlite or postgresql"),
        ("sqlite://", "must name a file"),
        ("sqlite:///:memory:", "must name a file"),
    ],
)
def test_what_cannot_be_used_is_refused(given: str, fault: str) -> None:
    with pytest.raises(StoreError, match=fault) as caught:
        database_url(given, Path("data"))
    assert "hidden" not in str(caught.value)
