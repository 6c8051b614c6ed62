"""`headrace chat`, in a pipe and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Headrace, command, complaint
from .service import KEY, FakeService, fake_service


@pytest.fixture
def service() -> Iterator[FakeService]:
    with fake_service() as running:
        yield running


def test_a_message_in_a_pipe_is_answered_on_stdout(
    headrace: Headrace, service: FakeService
) -> None:
    done = headrace("chat", "--url", f"{service.url}/v1/", "--key", KEY, stdin="one two three\n")
    assert done.returncode == 0
    assert done.stdout == "three two one\n"
    assert done.stderr.startswith("[3 tokens, ")
    assert "tokens/s" in done.stderr


def test_options_reach_the_service(headrace: Headrace, service: FakeService) -> None:
    options = ["--system", "Be brief.", "--temperature", "0.5", "--max-tokens", "9"]
    done = headrace(
        "chat",
        *options,
        stdin="hello",
        HEADRACE_PORT=str(service.port),
        HEADRACE_API_KEY=KEY,
    )
    assert done.stdout == "hello\n"
    (request,) = service.requests
    assert request == {
        "model": "backwards",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
        ],
        "temperature": 0.5,
        "max_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_what_was_not_asked_for_is_not_sent(headrace: Headrace, service: FakeService) -> None:
    headrace("chat", "--model", "m", "--url", service.url, "--key", KEY, stdin="hello")
    assert service.requests[0].keys() == {"model", "messages", "stream", "stream_options"}
    assert service.requests[0]["model"] == "m"


def test_the_bootstrap_key_is_used_where_it_is_known(
    headrace: Headrace, service: FakeService
) -> None:
    done = headrace("chat", "--url", service.url, stdin="hello", HEADRACE_BOOTSTRAP_KEY=KEY)
    assert done.stdout == "hello\n"


def test_faults_are_sentences(headrace: Headrace, service: FakeService) -> None:
    where = ["--url", service.url, "--model", "m"]
    assert "give one by --key" in complaint(headrace("chat", *where, stdin="hello"))
    where += ["--key", KEY]
    assert complaint(headrace("chat", *where, stdin="refuse")).endswith("temperature: too hot")
    assert "no message" in complaint(headrace("chat", *where, stdin=" \n"))
    assert "is not a URL" in complaint(headrace("chat", "--url", "localhost", stdin="hello"))


def test_an_answer_that_breaks_off_is_an_error(headrace: Headrace, service: FakeService) -> None:
    done = headrace("chat", "--url", service.url, "--key", KEY, stdin="fail")
    assert done.returncode == 1
    assert done.stdout == "half an\n"
    assert done.stderr == "headrace: the answer broke off: the worker died\n"


def test_input_that_is_no_utf8_is_a_sentence_that_names_the_byte(
    service: FakeService, environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        command("chat", "--url", service.url, "--key", KEY),
        input=b"caf\xe9\n",
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == b"headrace: standard input is not UTF-8: byte 3 is 0xe9\n"


def test_an_answer_that_was_cut_off_says_so_and_reasoning_stays_out_of_a_pipe(
    headrace: Headrace, service: FakeService
) -> None:
    done = headrace("chat", "--url", service.url, "--key", KEY, stdin="long")
    assert done.stdout == "a line\u2028and half\n"
    assert done.stderr.endswith(", cut off at its longest length]\n")


def test_no_service_is_a_sentence(headrace: Headrace) -> None:
    line = complaint(headrace("chat", "--url", "http://127.0.0.1:1", stdin="hello"))
    assert line == "no service answers at http://127.0.0.1:1; `headrace serve` starts one"


class Terminal:
    """A chat on a pseudo-terminal: type a line, read until a text shows."""

    def __init__(self, service: FakeService, environment: dict[str, str], cwd: Path) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command("chat", "--url", service.url, "--key", KEY),
            env=environment | {"TERM": "dumb"},
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._unread = ""

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def read_to(self, text: str) -> str:
        """What showed up to and with the text."""
        while text not in self._unread:
            self._unread += os.read(self._master, 4096).decode()
        shown, found, self._unread = self._unread.partition(text)
        return shown + found

    def interrupt_to(self, text: str) -> None:
        """Ctrl-C until the text shows: line editing misses one that comes before it listens."""
        while text not in self._unread:
            self.process.send_signal(signal.SIGINT)
            if select.select([self._master], [], [], 0.5)[0]:
                self._unread += os.read(self._master, 4096).decode()
        self.read_to(text)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(
    service: FakeService, environment: dict[str, str], tmp_path: Path
) -> Iterator[Terminal]:
    # Jobs in a shell's background, tests among them, ignore it, and what they start inherits that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    opened = Terminal(service, environment, tmp_path)
    signal.signal(signal.SIGINT, before)
    yield opened
    opened.close()


def contents(request: dict[str, object]) -> list[str]:
    messages = request["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages]


@pytest.mark.timeout(60)
def test_turns_build_up_until_cleared(service: FakeService, terminal: Terminal) -> None:
    terminal.read_to("> ")
    terminal.type("a b")
    assert "b a" in terminal.read_to("tokens")
    terminal.read_to("> ")
    terminal.type("refuse")
    terminal.read_to("too hot")
    terminal.read_to("> ")
    terminal.type("c")
    terminal.read_to("> ")
    terminal.type("/clear")
    terminal.read_to("> ")
    terminal.type("d")
    terminal.read_to("> ")
    terminal.type("/exit")
    assert terminal.process.wait(20) == 0
    asked = [contents(request) for request in service.requests]
    assert asked == [["a b"], ["a b", "b a", "refuse"], ["a b", "b a", "c"], ["d"]]


@pytest.mark.timeout(60)
def test_lines_that_are_pasted_together_are_one_message(
    service: FakeService, terminal: Terminal
) -> None:
    terminal.read_to("> ")
    terminal.type("one\ntwo\nthree")
    terminal.read_to("three two one")
    assert [contents(request) for request in service.requests] == [["one\ntwo\nthree"]]


@pytest.mark.timeout(60)
def test_reasoning_is_shown_on_a_terminal(terminal: Terminal) -> None:
    terminal.read_to("> ")
    terminal.type("long")
    assert "hmm" in terminal.read_to("a line")
    terminal.read_to("cut off at its longest length")


@pytest.mark.timeout(60)
def test_ctrl_c_stops_the_answer_and_not_the_program(
    service: FakeService, terminal: Terminal
) -> None:
    terminal.read_to("> ")
    terminal.type("forever")
    terminal.read_to("and on and on")
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_to("[stopped, ")
    assert service.abandoned.wait(20), "the service still answers"
    terminal.read_to("> ")
    terminal.type("and now")
    terminal.read_to("now and")
    first, answer, last = contents(service.requests[-1])
    assert (first, last) == ("forever", "and now")
    assert answer.startswith("and on and on ")
    terminal.read_to("> ")
    terminal.interrupt_to("/exit")
    assert terminal.process.poll() is None
    terminal.read_to("> ")
    terminal.type("/exit")
    assert terminal.process.wait(20) == 0
