"""Clients that leave, early, late or never."""

from __future__ import annotations

from headrace.edge.connection import Connection, connect, connection_of


def test_one_that_leaves_is_told_of_once() -> None:
    connection, told = Connection(), list[bool]()
    connection.watch(lambda: told.append(connection.gone))
    assert not told
    connection.lose()
    assert told == [True]


def test_one_that_has_left_is_told_of_at_once() -> None:
    connection, told = Connection(), list[bool]()
    connection.lose()
    connection.watch(lambda: told.append(True))
    assert told


def test_nothing_is_told_after_the_end() -> None:
    connection, told = Connection(), list[bool]()
    connection.watch(lambda: told.append(True))
    connection.unwatch()
    connection.lose()
    assert connection.gone
    assert not told


def test_a_request_finds_its_own() -> None:
    scope = {"type": "http"}
    assert not connection_of(scope).gone  # where a server doesn't tell, nobody leaves
    connection = Connection()
    connect(scope, connection)
    assert connection_of(scope) is connection
