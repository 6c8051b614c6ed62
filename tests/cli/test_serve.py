from __future__ import annotations

import json
import os
import pty
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import psutil
import pytest

from tests.models.tiny import write_tiny

from .conftest import Headrace, command, complaint


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A model with a vocabulary of letters, so that any short text of them can be asked."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = [*letters, "ab", *(f"<{i}>" for i in range(39 - len(letters)))]
    return write_tiny(
        tmp_path / "tiny.gguf",
        "llama",
        metadata={
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.pre": "gpt-2",
        },
    )


class Running:
    """`headrace serve` as a process, from its first line to its end."""

    def __init__(self, process: subprocess.Popen[str], output: IO[str]) -> None:
        self.process = process
        self.output = output
        self.said = ""

    def read_until(self, words: str) -> str:
        while words not in self.said:
            line = self.output.readline()
            assert line, self.said
            self.said += line
        return self.said

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def serve(environment: dict[str, str], tmp_path: Path) -> Iterator[Any]:
    started: list[Running] = []

    def start(*arguments: str, terminal: bool = False, **variables: str) -> Running:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        process = subprocess.Popen(
            command("serve", "--port", "0", "--kv-memory", "8MiB", *arguments),
            env=environment | variables,
            cwd=tmp_path,
            stdout=theirs,
            stderr=(tmp_path / "stderr").open("w"),
            text=True,
        )
        os.close(theirs)
        started.append(Running(process, os.fdopen(ours, "r")))
        return started[-1]

    yield start
    for running in started:
        running.process.kill()
        running.process.wait()
        running.output.close()


def test_without_a_terminal_the_first_key_goes_to_a_file_of_the_owner(
    serve: Any, tiny: Path, tmp_path: Path
) -> None:
    running = serve("--model", str(tiny))
    said = running.read_until("Ctrl-C stops it.")
    file = tmp_path / ".local/share/headrace/first-key"
    assert f"is in {file}." in said
    assert file.stat().st_mode & 0o777 == 0o600
    key = file.read_text().strip()
    assert "hr-" not in said + (tmp_path / "stderr").read_text()
    url = re.search(r"http://\S+", said)
    assert url is not None
    answer = httpx.get(f"{url[0]}/v1/models", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200
    assert running.stop() == 0


def test_the_first_start_in_a_terminal_shows_a_key_and_lines_that_work(
    serve: Any, tiny: Path, tmp_path: Path
) -> None:
    running = serve("--model", str(tiny), terminal=True)
    said = running.read_until("Ctrl-C stops it.")
    assert not (tmp_path / ".local/share/headrace/first-key").exists()
    assert re.search(r"serves tiny \([0-9a-f]{12}\) at http://127\.0\.0\.1:\d+", said)
    (curl,) = [line.strip() for line in said.splitlines() if line.strip().startswith("curl")]
    curl = curl.replace("Say hello.", "ab").replace("curl", "curl -sS")
    answer = subprocess.run(curl, shell=True, capture_output=True, text=True, timeout=60)
    assert '"object":"chat.completion"' in answer.stdout, answer
    (client,) = [line.strip() for line in said.splitlines() if "OpenAI(" in line]
    import openai

    made = eval(client.removeprefix("client = "), {"OpenAI": openai.OpenAI})
    assert [model.id for model in made.models.list()] == ["tiny"]
    assert running.stop() == 0


def test_a_given_key_is_never_shown(serve: Any, tiny: Path, tmp_path: Path) -> None:
    key = "hr-me_my-secret"
    running = serve("--model", str(tiny), HEADRACE_BOOTSTRAP_KEY=key)
    said = running.read_until("Ctrl-C stops it.")
    (worker,) = psutil.Process(running.process.pid).children()
    assert not [name for name in worker.environ() if name.startswith("HEADRACE_")]
    url = re.search(r"http://\S+", said)
    assert url is not None
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": "tiny", "prompt": "ab", "max_tokens": 3}
    answer = httpx.post(f"{url[0]}/v1/completions", json=body, headers=headers, timeout=30)
    assert answer.json()["usage"]["completion_tokens"] <= 3
    assert running.stop(signal.SIGINT) == 0
    assert "my-secret" not in said + (tmp_path / "stderr").read_text()


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ((), 200),
        (("--host", "0.0.0.0"), 401),
        (("--host", "0.0.0.0", "--metrics", "open"), 200),
        (("--metrics", "admin"), 401),
    ],
)
def test_metrics_name_tenants_to_strangers_on_loopback_alone(
    serve: Any, tiny: Path, tmp_path: Path, flags: tuple[str, ...], status: int
) -> None:
    key = "hr-me_my-secret"
    running = serve("--model", str(tiny), *flags, HEADRACE_BOOTSTRAP_KEY=key)
    url = re.search(r"http://\S+", running.read_until("Ctrl-C stops it."))
    assert url is not None
    answer = httpx.get(f"{url[0]}/metrics", timeout=30)
    assert answer.status_code == status
    with_key = httpx.get(
        f"{url[0]}/metrics", headers={"authorization": f"Bearer {key}"}, timeout=30
    )
    assert with_key.status_code == 200
    access = "open" if status == 200 else "admin"
    assert f'"access": "{access}"' in (tmp_path / "stderr").read_text()


def test_a_second_service_on_a_data_directory_is_one_line_and_commands_go_on(
    serve: Any, headrace: Headrace, tiny: Path
) -> None:
    running = serve("--model", str(tiny))
    running.read_until("Ctrl-C stops it.")
    line = complaint(headrace("serve", "--port", "0", "--model", str(tiny)))
    assert f"process {running.process.pid}, since " in line
    assert headrace("tenants", "create", "acme").returncode == 0
    assert headrace("keys", "create", "--tenant", "acme").returncode == 0
    running.process.kill()
    running.process.wait()
    again = serve("--model", str(tiny))
    again.read_until("Ctrl-C stops it.")
    assert again.stop() == 0


def test_without_its_pepper_a_service_does_not_start_and_no_key_is_made(
    serve: Any, headrace: Headrace, tiny: Path, tmp_path: Path
) -> None:
    running = serve("--model", str(tiny))
    running.read_until("Ctrl-C stops it.")
    (tmp_path / ".local/share/headrace/pepper").unlink()
    assert "pepper is missing" in complaint(headrace("keys", "create", "--tenant", "default"))
    assert running.stop() == 0
    done = headrace("serve", "--port", "0", "--model", str(tiny))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "pepper is missing" in done.stderr


class Outage:
    """A running service whose database fails, and what it answers."""

    def __init__(self, running: Running, folder: Path) -> None:
        said = running.read_until("Ctrl-C stops it.")
        url = re.search(r"http://\S+", said)
        assert url is not None
        self.url = url[0]
        self.pid = running.process.pid
        self.database = folder / ".local/share/headrace/headrace.db"
        self.stderr = folder / "stderr"

    def becomes(self, status: int) -> str:
        """The reason, once /readyz answers so."""
        deadline = time.monotonic() + 60
        while True:
            answer = httpx.get(f"{self.url}/readyz", timeout=30)
            if answer.status_code == status:
                return str(answer.json().get("reason"))
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.1)

    def asked(self) -> httpx.Response:
        headers = {"authorization": "Bearer hr-me_secret"}
        body = {"model": "tiny", "prompt": "ab", "max_tokens": 3}
        return httpx.post(f"{self.url}/v1/completions", json=body, headers=headers, timeout=60)

    def alarms(self) -> list[str]:
        lines = map(json.loads, self.stderr.read_text().splitlines())
        return [line["state"] for line in lines if line["event"] == "database_unavailable"]


@pytest.fixture
def outage(serve: Any, tiny: Path, tmp_path: Path) -> Outage:
    return Outage(serve("--model", str(tiny), HEADRACE_BOOTSTRAP_KEY="hr-me_secret"), tmp_path)


def test_a_damaged_database_is_not_ready_a_503_and_one_alarm(outage: Outage) -> None:
    assert outage.asked().status_code == 200
    with sqlite3.connect(outage.database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = outage.database.read_bytes()
    with outage.database.open("r+b") as file:
        file.write(b"\xff" * len(whole))
    assert outage.becomes(503) == "the database is damaged"
    answers = [outage.asked() for _ in range(2)]
    assert {answer.status_code for answer in answers} == {503}
    assert "database is damaged" in answers[-1].json()["error"]["message"]
    assert outage.alarms() == ["the database is damaged"]
    assert "Traceback" not in outage.stderr.read_text()
    with outage.database.open("r+b") as file:
        file.write(whole)
    outage.becomes(200)
    assert outage.asked().status_code == 200


def test_a_whole_answer_admitted_just_before_the_end_of_the_database_is_a_503_and_charged(
    outage: Outage,
) -> None:
    assert outage.asked().status_code == 200
    aside = outage.database.with_suffix(".aside")
    outage.database.rename(aside)
    begun = time.monotonic()
    answer = outage.asked()
    waited = time.monotonic() - begun
    assert answer.status_code == 503
    assert "removed or replaced" in answer.json()["error"]["message"]
    assert 5 <= waited < 30
    aside.rename(outage.database)
    outage.becomes(200)
    query = "SELECT count(*) FROM charges WHERE ending IN ('stop', 'length')"
    deadline = time.monotonic() + 60
    while True:
        with sqlite3.connect(outage.database) as connection:
            if connection.execute(query).fetchone() == (2,):
                break
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's")
def test_a_database_that_cannot_grow_is_not_ready_and_a_503(outage: Outage) -> None:
    assert outage.asked().status_code == 200
    _, most = resource.prlimit(outage.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(outage.pid, resource.RLIMIT_FSIZE, (12_000, most))
    assert outage.becomes(503) == "the database's disk fails"
    assert outage.asked().status_code == 503
    resource.prlimit(outage.pid, resource.RLIMIT_FSIZE, (most, most))
    outage.becomes(200)
    assert outage.asked().status_code == 200
    assert outage.alarms() == ["the database's disk fails"]
    assert "Traceback" not in outage.stderr.read_text()


@pytest.mark.parametrize("seconds", [0.3, 0.8, 1.5])
def test_a_signal_during_the_start_ends_it_cleanly(
    serve: Any, tiny: Path, tmp_path: Path, seconds: float
) -> None:
    running = serve("--model", str(tiny))
    time.sleep(seconds)
    assert running.stop() in (0, -signal.SIGTERM)  # the latter before Python's code runs
    assert "Traceback" not in (tmp_path / "stderr").read_text()


@pytest.mark.parametrize("event", ["worker_started", "worker_ready", "model_loaded"])
def test_a_signal_at_the_end_of_the_start_loses_no_first_key(
    serve: Any, tiny: Path, tmp_path: Path, event: str
) -> None:
    running = serve("--model", str(tiny))
    deadline = time.monotonic() + 60
    while event not in (tmp_path / "stderr").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert running.stop() == 0
    books = tmp_path / ".local/share/headrace/headrace.db"
    with sqlite3.connect(books) as database:
        (keys,) = database.execute("SELECT count(*) FROM keys").fetchone()
    assert keys == (tmp_path / ".local/share/headrace/first-key").exists()


def test_a_port_in_use_is_one_line(headrace: Headrace, tiny: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = complaint(headrace("serve", "--port", str(port), "--model", str(tiny)))
    assert line == f"cannot listen on 127.0.0.1 port {port}: Address already in use"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "no-such-model"], "no model is called 'no-such-model'"),
        (["--max-sequences", "0"], "max_sequences"),
        (["--database-url", "mysql://x/y"], "database_url names 'mysql'"),
        (["--published-prefixes", "/no/such/folder"], "published_prefixes"),
        (["--target-itl", "80", "--target-throughput", "400"], "exclude each other"),
        (["--host", "no.such.host.invalid"], "cannot listen on 'no.such.host.invalid'"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    headrace: Headrace, tiny: Path, arguments: list[str], says: str
) -> None:
    if "--model" not in arguments:
        arguments = ["--model", str(tiny), *arguments]
    done = headrace("serve", "--port", "0", *arguments)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_model_file_is_named(headrace: Headrace, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 60)
    done = headrace("serve", "--port", "0", "--model", str(broken))
    assert done.returncode == 1
    assert "broken.gguf" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_engine_that_cannot_start_ends_the_service(headrace: Headrace, tiny: Path) -> None:
    done = headrace("serve", "--port", "0", "--model", str(tiny), "--context-length", "1000000")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("headrace: ")
    assert "context_length is 1000000" in last
