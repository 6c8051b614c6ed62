from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
import uvloop

from headrace.edge import front
from headrace.edge.connection import connection_of
from headrace.edge.front import POLLED
from headrace.edge.open_connections import ConnectionLimits
from headrace.edge.server import Server, bind, is_local
from tests.edge.fakes import AUTH, MODEL, World, error_of, until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running


@asynccontextmanager
async def serving(world: World, **options: Any) -> AsyncIterator[Server]:
    """Our server on a free port; `port` is set on it. It is stopped at the end, if not before."""

    def drain() -> None:
        world.models.draining = True
        world.dispatcher.drain()

    listener = bind("127.0.0.1", 0)
    server = Server(world.app, on_stop=drain, always=POLLED, **options)
    server.port = listener.getsockname()[1]  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve(listener))
    await until(lambda: server.started)
    yield server
    server.stop()
    await task


@pytest.fixture
async def server(world: World) -> AsyncIterator[Server]:
    async with serving(world) as running:
        yield running


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


LONG = {"model": MODEL, "prompt": "a", "max_tokens": 400, "ignore_eos": True}


async def test_while_requests_finish_new_ones_are_told_503_and_health_is_told(
    world: World, server: Server
) -> None:
    world.supervisor.pace = 0.002
    async with httpx.AsyncClient(headers=AUTH, base_url=url(server)) as http:
        running = asyncio.create_task(http.post("/v1/completions", json=LONG))
        await world.supervisor.reach(3)
        world.supervisor.paused = True
        server.stop()
        for path in ("/v1/models", "/v1/nothing", "/"):
            answer = await http.get(path)
            assert error_of(answer, 503)["code"] == "service_unavailable"
            assert answer.headers["connection"] == "close"
            assert answer.headers["retry-after"] == "1"
        refused = await http.post("/v1/messages", json={})
        assert refused.status_code == 503
        assert refused.json()["error"]["type"] == "api_error"
        async with httpx.AsyncClient() as other:  # the listener is open
            assert (await other.get(f"{url(server)}/healthz")).status_code == 200
            assert (await other.get(f"{url(server)}/readyz")).status_code == 503
        world.supervisor.paused = False
        assert (await running).status_code == 200


async def test_at_the_end_of_the_grace_streams_end_with_an_error_event(world: World) -> None:
    world.supervisor.pace = 0.002
    async with serving(world, grace=0.1) as server, httpx.AsyncClient(headers=AUTH) as http:
        body = LONG | {"stream": True}
        openai = asyncio.create_task(http.post(f"{url(server)}/v1/completions", json=body))
        asked = {"model": MODEL, "max_tokens": 400, "stream": True}
        asked["messages"] = [{"role": "user", "content": "a"}]
        anthropic = asyncio.create_task(http.post(f"{url(server)}/v1/messages", json=asked))
        await until(lambda: world.dispatcher.status().running == 2)
        await world.supervisor.reach(3)
        world.supervisor.paused = True
        server.stop()
        await asyncio.sleep(0.15)
        world.supervisor.paused = False
        first, second = await openai, await anthropic
    assert first.status_code == second.status_code == 200
    last = first.text.removesuffix("\n\n").rpartition("\n\n")[2]
    told = json.loads(last.removeprefix("data: "))
    assert told["error"]["code"] == "service_unavailable"
    assert "[DONE]" not in first.text
    assert '"type":"error"' in second.text.rpartition("event: error\n")[2]
    assert "message_stop" not in second.text
    await until(lambda: len(world.books.closed) == 2)
    assert {charge["ending"] for charge in world.books.closed.values()} == {"error"}


async def test_at_the_end_of_the_grace_a_whole_answer_is_a_503(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    world.supervisor.pace = 0.002
    async with serving(world, grace=0.05) as server, httpx.AsyncClient(headers=AUTH) as http:
        running = asyncio.create_task(http.post(f"{url(server)}/v1/completions", json=LONG))
        await world.supervisor.reach(3)
        server.stop()
        answer = await running
    assert error_of(answer, 503)["code"] == "service_unavailable"
    await world.idle()
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_a_body_that_is_still_coming_at_the_end_is_a_503(world: World) -> None:
    async with serving(world, grace=0.05) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)  # type: ignore[attr-defined]
        head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\nauthorization: {AUTH['authorization']}"
        writer.write(f"{head}\r\ncontent-length: 100\r\n\r\nx".encode())
        await until(lambda: world.services.gate.inside == 1)
        server.stop()
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
        writer.close()


async def test_work_that_heeds_nothing_is_cut_off(world: World) -> None:
    async def stuck(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    server = Server(stuck, on_stop=lambda: None, grace=0.0)
    listener = bind("127.0.0.1", 0)
    task = asyncio.create_task(server.serve(listener))
    await until(lambda: server.started)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.sleep(0.05)
    server.stop()
    await task
    assert await reader.read() == b""
    writer.close()


async def exchange(server: Server, data: bytes) -> bytes:
    """All that is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)  # type: ignore[attr-defined]
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


async def test_malformed_http_is_answered_and_logged_as_everything_else(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = structlog.testing.CapturingLogger()
    monkeypatch.setattr(front, "log", logged)
    answer = await exchange(server, b"GET /v1/models HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "malformed_request"
    request_id = re.search(rb"x-request-id: (req_[0-9a-f]+)", head)
    assert request_id
    (line,) = (call.kwargs for call in logged.calls)
    assert line["request_id"] == request_id[1].decode()
    assert (line["status"], line["error"]) == (400, "malformed_request")
    assert line["path"] == "/v1/models"


async def test_http_1_0_gets_a_stream_up_to_the_end(world: World, server: Server) -> None:
    world.say("ok")
    body = json.dumps({"model": MODEL, "prompt": "a", "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.0\r\nauthorization: {AUTH['authorization']}\r\n"
    answer = await exchange(
        server, head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body
    )
    assert b"transfer-encoding" not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/v1/models", "/openapi.json"])
async def test_head_is_get_without_a_body(server: Server, path: str) -> None:
    async with httpx.AsyncClient(headers=AUTH) as http:
        get = await http.get(url(server) + path)
        head = await http.head(url(server) + path)
    assert head.status_code == get.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(get.content))


async def test_a_slow_body_is_a_408_in_the_shape_of_its_api(world: World) -> None:
    limits = ConnectionLimits(body=0.5)
    async with serving(world, limits=limits) as server:
        head = f"POST /v1/messages HTTP/1.1\r\nhost: a\r\nauthorization: {AUTH['authorization']}"
        answer = await exchange(server, f"{head}\r\ncontent-length: 10\r\n\r\nx".encode())
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"type":"invalid_request_error"' in answer
        slow = await exchange(
            server,
            b"POST /v1/messages HTTP/1.1\r\nhost: a\r\nx-api-key: no\r\ncontent-length: 10\r\n\r\n",
        )
        assert slow.startswith(b"HTTP/1.1 401 "), "without a key no body is waited for"


async def test_a_reader_that_never_reads_ends_its_work(world: World) -> None:
    async def floods(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not connection_of(scope).gone:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            written.append(65536)
            await asyncio.sleep(0)
        ended.set()

    written, ended = list[int](), asyncio.Event()
    server = Server(floods, on_stop=lambda: None, limits=ConnectionLimits(write=0.5))
    listener = bind("127.0.0.1", 0)
    task = asyncio.create_task(server.serve(listener))
    await until(lambda: server.started)
    client = socket.create_connection(listener.getsockname())
    client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.wait_for(ended.wait(), 60)
    assert sum(written) < 32 << 20, "what is not read is not kept"
    client.close()
    server.stop()
    await task


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("size", [60_000, 200_000])
def test_an_answer_is_sent_to_its_end_however_late_it_is_read(
    loop: Callable[[], asyncio.AbstractEventLoop], size: int
) -> None:
    async def says(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size})

    async def answer() -> bytes:
        limits = ConnectionLimits(linger=0.0)  # 0.1.0: as soon as the next second begins
        server = Server(says, on_stop=lambda: None, limits=limits)
        listener = bind("127.0.0.1", 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        address = listener.getsockname()
        task = asyncio.create_task(server.serve(listener))
        await until(lambda: server.started)
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        await asyncio.sleep(2.1)
        reader, writer = await asyncio.open_connection(sock=client)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        server.stop()
        await task
        return answer

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(answer()).endswith(b"\r\n\r\n" + b"x" * size)


async def test_clients_that_reset_at_any_moment_leave_nothing_behind(
    world: World, server: Server
) -> None:
    body = json.dumps(LONG | {"stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: a\r\nauthorization: {AUTH['authorization']}\r\n"
    whole = head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body
    world.supervisor.pace = 0.001
    for cut in [*range(0, len(whole), 23), len(whole), len(whole), len(whole)]:
        client = socket.create_connection(("127.0.0.1", server.port))  # type: ignore[attr-defined]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(whole[:cut])
        await asyncio.sleep(0.001 * (cut % 7))
        client.close()
    await until(lambda: world.services.meter.in_flight == 0)
    await world.idle()
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{url(server)}/healthz")).status_code == 200


def test_local_addresses_are_known() -> None:
    for host, local in (("127.0.0.1", True), ("127.8.8.8", True), ("0.0.0.0", False)):
        with bind(host, 0) as listener:
            assert is_local(listener) is local
    if socket.has_ipv6:
        for host, local in (("::1", True), ("::", False), ("::ffff:127.0.0.1", True)):
            try:
                listener = bind(host, 0)
            except OSError:
                continue
            with listener:
                assert is_local(listener) is local
    with socket.socket(socket.AF_UNIX) as unix:
        assert is_local(unix)


def test_connections_are_limited_by_open_files(tmp_path: Path) -> None:
    program = """
        import resource
        from headrace.edge.server import connection_limits
        from headrace.settings import Settings
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024))
        print(connection_limits(Settings()).connections)
        print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        print(connection_limits(Settings(max_connections=100)).connections)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    told = [line for line in done.stdout.splitlines() if "max_connections_lowered" not in line]
    assert told == ["832", "1024", "100"]


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
