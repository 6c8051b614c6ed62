from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator

import httpx
import pytest

from headrace.edge.server import Server, bind
from tests.edge.fakes import AUTH, MODEL, World, until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running


@pytest.fixture
async def server(world: World) -> AsyncIterator[Server]:
    """Our server on a free port; `port` is set on it."""
    listener = bind("127.0.0.1", 0)
    server = Server(world.app, on_stop=world.dispatcher.drain)
    server.port = listener.getsockname()[1]  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve(listener))
    await until(lambda: server.started)
    yield server
    server.stop()
    await task


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"  # type: ignore[attr-defined]


def test_a_port_in_use_is_told_in_words() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}: Address already in use"):
            bind("127.0.0.1", port)
    with pytest.raises(OSError, match=r"cannot listen on 'no\.such\.host\.invalid'"):
        bind("no.such.host.invalid", 0)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nx: ", b"GET /"])
async def test_a_head_without_end_is_431(server: Server, head: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)  # type: ignore[attr-defined]
    writer.write(head)
    for _ in range(20):
        writer.write(b"y" * 50_000)
        await writer.drain()
        await asyncio.sleep(0.001)
        if reader._buffer:  # type: ignore[attr-defined]
            break
    answer = await reader.readuntil(b"}}")
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]["code"] == "request_too_large"
    writer.close()
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{url(server)}/healthz")).status_code == 200


async def test_a_head_without_end_is_refused_in_the_shape_of_its_api(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)  # type: ignore[attr-defined]
    writer.write(b"POST /v1/messages HTTP/1.1\r\nx: " + b"y" * 100_000)
    head, body = (await reader.readuntil(b'"}')).split(b"\r\n\r\n")
    told = json.loads(body + await reader.read())
    assert head.startswith(b"HTTP/1.1 431 ")
    assert told["error"]["type"] == "invalid_request_error"
    assert f"request-id: {told['request_id']}".encode() in head
    writer.close()


async def test_many_requests_on_one_connection_each_have_their_own_head(server: Server) -> None:
    async with httpx.AsyncClient() as http:
        for _ in range(20):
            headers = {"x-padding": "y" * 10_000}
            assert (await http.get(f"{url(server)}/healthz", headers=headers)).status_code == 200


async def test_stopping_lets_running_streams_end(world: World, server: Server) -> None:
    world.supervisor.pace = 0.002
    body = {"model": MODEL, "prompt": "a", "max_tokens": 50, "stream": True}
    async with httpx.AsyncClient(headers=AUTH) as http:
        running = asyncio.create_task(http.post(f"{url(server)}/v1/completions", json=body))
        await world.supervisor.reach(3)
        server.stop()
        response = await running
    assert response.text.endswith("data: [DONE]\n\n")
    assert world.books.last()["completion_tokens"] == 50


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_with_zero(number: signal.Signals) -> None:
    program = """
        import asyncio
        from headrace.edge.server import Server, bind

        async def app(scope, receive, send):
            pass

        async def main():
            server = Server(app, on_stop=lambda: print("stopping", flush=True))
            serving = asyncio.create_task(server.serve(bind("127.0.0.1", 0)))
            while not server.started:
                await asyncio.sleep(0)
            print("up", flush=True)
            await serving
            print("over", flush=True)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        told = [line for line in process.stdout if "draining" not in line]
        assert told == ["stopping\n", "over\n"]
        assert process.wait(10) == 0


def test_port_zero_takes_a_free_one() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0
        assert listener.family == socket.AF_INET
