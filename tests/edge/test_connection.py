"""Clients that leave, early, late or never, and a service that ends."""

from __future__ import annotations

from headrace.edge.connection import Connection, connect, connection_of


class Work:
    def __init__(self) -> None:
        self.told: list[str] = []

    def cancel(self) -> None:
        self.told.append("cancel")

    def stop(self) -> None:
        self.told.append("stop")


def test_work_is_cancelled_once_when_the_client_leaves() -> None:
    connection, work = Connection(), Work()
    connection.watch(work.cancel, work.stop)
    assert not work.told
    connection.lose()
    assert work.told == ["cancel"]
    assert connection.gone


def test_work_for_a_client_that_has_left_is_cancelled_at_once() -> None:
    connection, work = Connection(), Work()
    connection.lose()
    connection.watch(work.cancel, work.stop)
    assert work.told == ["cancel"]


def test_work_is_stopped_when_the_service_ends() -> None:
    connection, work = Connection(), Work()
    connection.watch(work.cancel, work.stop)
    connection.stop()
    assert work.told == ["stop"]
    assert not connection.gone


def test_work_that_begins_when_the_service_ends_is_stopped_at_once() -> None:
    connection, work = Connection(), Work()
    connection.stop()
    connection.watch(work.cancel, work.stop)
    assert work.told == ["stop"]


def test_nothing_is_told_after_the_end() -> None:
    connection, work = Connection(), Work()
    connection.watch(work.cancel, work.stop)
    connection.unwatch()
    connection.lose()
    connection.stop()
    assert connection.gone
    assert not work.told


def test_a_request_finds_its_own() -> None:
    scope = {"type": "http"}
    assert not connection_of(scope).gone  # where a server doesn't tell, nobody leaves
    connection = Connection()
    connect(scope, connection)
    assert connection_of(scope) is connection
