"""Who a key belongs to, from memory and from the database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Connection, delete
from structlog.testing import capture_logs

from headrace.access import lookups as lookups_module
from headrace.access import revision
from headrace.access.aliases import set_alias
from headrace.access.authenticator import Authenticator
from headrace.access.changes import Changes
from headrace.access.errors import InvalidKey
from headrace.access.key import Key
from headrace.access.keys import create_key, revoke_key
from headrace.access.principal import Principal
from headrace.access.tenants import change_tenant, create_tenant
from headrace.store import schema
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable

from .queries import queries

PEPPER = b"p" * 32


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class SlowLane:
    """Gives its results when it is told to go on."""

    def __init__(self, database: Database) -> None:
        self.read, self.go_on = asyncio.Event(), asyncio.Event()
        self._lane = database.lane("slow", 1)

    def lane(self, name: str, threads: int) -> SlowLane:
        return self

    async def run(self, work: Callable[[Connection], Any]) -> Any:
        result = await self._lane.run(work)
        self.read.set()
        await self.go_on.wait()
        return result


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


def create(
    database: Database,
    key: Key | None = None,
    expires_at: int | None = None,
    tenant: str = "acme",
) -> Key:
    key = key or Key.make()
    with database.transaction(write=True) as connection:
        create_key(
            connection,
            key,
            PEPPER,
            tenant=tenant,
            scopes=["inference"],
            actor="test",
            expires_at=expires_at,
        )
    return key


def disable(database: Database, tenant: str) -> None:
    with database.transaction(write=True) as connection:
        change_tenant(connection, tenant, lambda t: replace(t, enabled=False), actor="test")


def lookups_of(seen: list[str]) -> int:
    """Look-ups by the authenticator, which ask for several ids at once."""
    return sum("keys.id IN" in statement for statement in seen if "key_secrets" not in statement)


@pytest.fixture
def database_of_two(sqlite: Database) -> tuple[Key, Key]:
    """Keys of acme and of globex."""
    return create(sqlite), create(sqlite, tenant="globex")


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


async def test_a_key_that_was_revoked_is_looked_up_once_and_not_for_each_request(
    authenticator: Authenticator, changes: Changes, sqlite: Database, lookups: list[str]
) -> None:
    key = create(sqlite)
    await authenticator.authenticate(key.text)
    revoke(sqlite, key.id)
    await changes.refresh()
    del lookups[:]
    for _ in range(10):
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(key.text)
    assert len(lookups) == 1


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
    slow = SlowLane(sqlite)
    monkeypatch.setattr(sqlite, "lane", slow.lane)
    authenticator = Authenticator(sqlite, PEPPER, changes)
    key = create(sqlite)
    await changes.refresh()
    answering = asyncio.create_task(authenticator.authenticate(key.text))
    await slow.read.wait()
    revoke(sqlite, key.id)
    await changes.refresh()
    slow.go_on.set()
    await answering
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key.text)


async def test_a_caller_after_a_change_does_not_get_what_was_read_before_it(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = Changes(sqlite)
    slow = SlowLane(sqlite)
    monkeypatch.setattr(sqlite, "lane", slow.lane)
    authenticator = Authenticator(sqlite, PEPPER, changes)
    key = create(sqlite)
    await changes.refresh()
    early = asyncio.create_task(authenticator.authenticate(key.text))
    await slow.read.wait()
    revoke(sqlite, key.id)
    await changes.refresh()
    late = asyncio.create_task(authenticator.authenticate(key.text))
    await asyncio.sleep(0)
    slow.go_on.set()
    await early
    with pytest.raises(InvalidKey):
        await late


async def test_a_change_of_one_key_or_tenant_leaves_the_others_remembered(
    authenticator: Authenticator,
    changes: Changes,
    database_of_two: tuple[Key, Key],
    sqlite: Database,
) -> None:
    acme, globex = database_of_two
    await changes.refresh()
    for key in (acme, globex):
        await authenticator.authenticate(key.text)
    with queries("keys") as lookups:
        revoke(sqlite, create(sqlite).id)
        disable(sqlite, "globex")
        await changes.refresh()
        assert (await authenticator.authenticate(acme.text)).tenant.enabled
        assert lookups_of(lookups) == 0
        assert not (await authenticator.authenticate(globex.text)).tenant.enabled
        assert lookups_of(lookups) == 1


async def test_an_alias_for_everybody_is_known_to_all_after_a_refresh(
    authenticator: Authenticator,
    changes: Changes,
    database_of_two: tuple[Key, Key],
    sqlite: Database,
) -> None:
    await changes.refresh()
    for key in database_of_two:
        await authenticator.authenticate(key.text)
    with sqlite.transaction(write=True) as connection:
        set_alias(connection, "best", "smollm2-135m", actor="test")
    await changes.refresh()
    for key in database_of_two:
        assert "best" in (await authenticator.authenticate(key.text)).tenant.aliases


async def test_more_changes_than_are_kept_forget_everything(
    authenticator: Authenticator,
    changes: Changes,
    sqlite: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = create(sqlite)
    await changes.refresh()
    await authenticator.authenticate(key.text)
    revoke(sqlite, key.id)
    monkeypatch.setattr(revision, "KEPT", 3)
    for name in "abcde":
        with sqlite.transaction(write=True) as connection:
            create_tenant(connection, name, actor="test")
    await changes.refresh()
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key.text)


async def test_a_change_by_a_release_that_noted_nothing_forgets_everything(
    authenticator: Authenticator, changes: Changes, sqlite: Database
) -> None:
    key = create(sqlite)
    await changes.refresh()
    await authenticator.authenticate(key.text)
    revoke(sqlite, key.id)
    with sqlite.transaction(write=True) as connection:
        connection.execute(delete(schema.changes))
    await changes.refresh()
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(key.text)


async def test_the_key_used_longest_ago_goes_first(
    sqlite: Database, clock: Clock, changes: Changes
) -> None:
    authenticator = Authenticator(sqlite, PEPPER, changes, capacity=2, monotonic=clock, now=clock)
    often, once, new = (create(sqlite) for _ in range(3))
    for key in (often, once, often, new):
        await authenticator.authenticate(key.text)
    with queries("keys") as lookups:
        await authenticator.authenticate(often.text)
        assert lookups_of(lookups) == 0
        await authenticator.authenticate(once.text)
        assert lookups_of(lookups) == 1


async def test_a_thousand_wrong_keys_at_once_cost_a_few_transactions(
    authenticator: Authenticator, sqlite: Database
) -> None:
    """And a valid key behind them waits for those alone."""
    key = create(sqlite)
    with queries("keys") as lookups:
        wrong = [
            asyncio.ensure_future(authenticator.authenticate(f"hr-{number}_x"))
            for number in range(1000)
        ]
        await asyncio.sleep(0)
        await authenticator.authenticate(key.text)
        results = await asyncio.gather(*wrong, return_exceptions=True)
        assert all(isinstance(result, InvalidKey) for result in results)
        assert lookups_of(lookups) <= 5


async def test_a_valid_key_is_found_while_every_common_thread_is_busy(
    authenticator: Authenticator, sqlite: Database
) -> None:
    key = create(sqlite)
    free = threading.Event()
    busy = [asyncio.ensure_future(sqlite.run(lambda _: free.wait(60))) for _ in range(8)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(30):
            await authenticator.authenticate(key.text)
        assert not any(task.done() for task in busy)
    finally:
        free.set()
        await asyncio.gather(*busy)


async def test_too_many_waiting_look_ups_are_turned_away(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups_module, "MOST_WAITING", 3)
    asked = [authenticator.authenticate(f"hr-{number}_x") for number in range(4)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [InvalidKey] * 3 + [DatabaseUnavailable]


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
