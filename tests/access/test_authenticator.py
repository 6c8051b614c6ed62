"""Who a key belongs to, from memory and from the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL
from structlog.testing import capture_logs

from headrace.access.authenticator import Authenticator
from headrace.access.changes import Changes
from headrace.access.errors import InvalidKey
from headrace.access.key import Key
from headrace.access.keys import create_key, revoke_key
from headrace.access.principal import Principal
from headrace.store.database import Database

from .queries import queries

PEPPER = b"p" * 32


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def changes(sqlite: Database) -> Changes:
    return Changes(sqlite)


@pytest.fixture
def authenticator(sqlite: Database, changes: Changes, clock: Clock) -> Authenticator:
    return Authenticator(sqlite, PEPPER, changes, capacity=50, monotonic=clock, now=clock)


@pytest.fixture
def lookups() -> Iterator[list[str]]:
    with queries("keys") as seen:
        yield seen


def create(database: Database, key: Key | None = None, expires_at: int | None = None) -> Key:
    key = key or Key.make()
    with database.transaction(write=True) as connection:
        create_key(
            connection,
            key,
            PEPPER,
            tenant="acme",
            scopes=["inference"],
            actor="test",
            expires_at=expires_at,
        )
    return key


def revoke(database: Database, id: str) -> None:
    with database.transaction(write=True) as connection:
        revoke_key(connection, id, actor="test")


async def test_a_valid_key_tells_its_tenant(database: Database) -> None:
    key = create(database)
    principal = await Authenticator(database, PEPPER, Changes(database)).authenticate(key.text)
    assert isinstance(principal, Principal)
    assert (principal.tenant.name, principal.key_id) == ("acme", key.id)
    assert principal.scopes == {"inference"}


async def test_the_right_id_with_another_secret_or_pepper_is_invalid(database: Database) -> None:
    key = create(database)
    for text, pepper in [(f"{key.text}x", PEPPER), (key.text, b"q" * 32)]:
        with pytest.raises(InvalidKey) as caught:
            await Authenticator(database, pepper, Changes(database)).authenticate(text)
        assert key.secret not in str(caught.value)


async def test_a_malformed_key_asks_the_database_nothing(
    authenticator: Authenticator, lookups: list[str]
) -> None:
    for text in ("", "hr-", "Bearer", "hr-a_\n", "sk-proj-123"):
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(text)
    assert lookups == []


async def test_a_valid_key_is_looked_up_once_a_minute(
    authenticator: Authenticator, sqlite: Database, clock: Clock, lookups: list[str]
) -> None:
    key = create(sqlite)
    del lookups[:]
    await authenticator.authenticate(key.text)
    clock.now += 59.9
    await authenticator.authenticate(key.text)
    assert len(lookups) == 1
    clock.now += 0.1
    await authenticator.authenticate(key.text)
    assert len(lookups) == 2


async def test_an_unknown_key_is_looked_up_once_in_5_seconds(
    authenticator: Authenticator, clock: Clock, lookups: list[str]
) -> None:
    for seconds, expected in [(0, 1), (4.9, 1), (0.1, 2)]:
        clock.now += seconds
        with pytest.raises(InvalidKey):
            await authenticator.authenticate("hr-no_body")
        assert len(lookups) == expected


async def test_a_thousand_at_once_share_one_lookup(
    authenticator: Authenticator, sqlite: Database, lookups: list[str]
) -> None:
    key = create(sqlite)
    del lookups[:]
    found = await asyncio.gather(*(authenticator.authenticate(key.text) for _ in range(1000)))
    assert len(set(found)) == 1
    assert len(lookups) == 1


async def test_who_gives_up_leaves_the_lookup_to_the_others(
    authenticator: Authenticator, sqlite: Database, lookups: list[str]
) -> None:
    key = create(sqlite)
    del lookups[:]
    hasty, patient = (asyncio.create_task(authenticator.authenticate(key.text)) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    assert (await patient).key_id == key.id
    assert hasty.cancelled()
    assert len(lookups) == 1


async def test_a_remembered_key_still_expires_on_time(
    authenticator: Authenticator, sqlite: Database, clock: Clock
) -> None:
    key = create(sqlite, expires_at=1_010_000)
    await authenticator.authenticate(key.text)
    clock.now += 10
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key.text)


async def test_guessed_keys_cannot_drive_out_a_valid_one(
    authenticator: Authenticator, sqlite: Database, lookups: list[str]
) -> None:
    key = create(sqlite)
    await authenticator.authenticate(key.text)
    for number in range(200):
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(f"hr-{key.id}_{number}")
    del lookups[:]
    await authenticator.authenticate(key.text)
    assert lookups == []


async def test_a_refresh_after_a_change_is_enough(
    authenticator: Authenticator, changes: Changes, sqlite: Database, lookups: list[str]
) -> None:
    key = create(sqlite)
    await changes.refresh()
    await authenticator.authenticate(key.text)
    revoke(sqlite, key.id)
    await changes.refresh()
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key.text)


async def test_a_new_key_that_was_just_refused_is_accepted_after_a_refresh(
    authenticator: Authenticator, changes: Changes, sqlite: Database
) -> None:
    await changes.refresh()
    with pytest.raises(InvalidKey):
        await authenticator.authenticate("hr-a_b")
    create(sqlite, Key("a", "b"))
    await changes.refresh()
    await authenticator.authenticate("hr-a_b")


async def test_without_changes_a_refresh_forgets_nothing(
    authenticator: Authenticator, changes: Changes, sqlite: Database, lookups: list[str]
) -> None:
    key = create(sqlite)
    await changes.refresh()
    await authenticator.authenticate(key.text)
    del lookups[:]
    await changes.refresh()
    await authenticator.authenticate(key.text)
    assert lookups == []


async def test_what_was_read_before_a_change_is_not_remembered(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up reads, the key is revoked, the refresh forgets, and only then the look-up
    returns."""
    changes = Changes(sqlite)
    authenticator = Authenticator(sqlite, PEPPER, changes)
    key = create(sqlite)
    await changes.refresh()
    run, read, go_on = sqlite.run, asyncio.Event(), asyncio.Event()

    async def slow_run(*arguments: object, **options: object) -> object:
        result = await run(*arguments, **options)  # type: ignore[arg-type]
        read.set()
        await go_on.wait()
        return result

    monkeypatch.setattr(sqlite, "run", slow_run)
    answering = asyncio.create_task(authenticator.authenticate(key.text))
    await read.wait()
    monkeypatch.undo()
    revoke(sqlite, key.id)
    await changes.refresh()
    go_on.set()
    await answering
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key.text)


async def test_no_key_is_in_the_database_or_the_log(sqlite_url: URL) -> None:
    database = Database.open(sqlite_url)
    with capture_logs() as logs:
        key = create(database)
        changes = Changes(database)
        authenticator = Authenticator(database, PEPPER, changes)
        await changes.start()
        await authenticator.authenticate(key.text)
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(f"{key.text}x")
        revoke(database, key.id)
        await changes.stop()
        files = list(Path(str(sqlite_url.database)).parent.iterdir())
        content = b"".join(file.read_bytes() for file in files)
    assert key.id.encode() in content
    assert key.secret.encode() not in content
    assert key.secret not in str(logs)
    database.close()
