"""`headrace chat`: talk to a running service from a terminal, or from a script through a pipe."""

from __future__ import annotations

import contextlib
import json
import select
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from headrace.cli.flags import with_settings
from headrace.cli.output import CommandError
from headrace.cli.remote import ApiKey, Url, connection, first_model, request
from headrace.settings import Settings

if TYPE_CHECKING:
    import httpx

PASTE_SECONDS = 0.05
"""Lines that come so soon after each other were pasted together."""

HELP = "/clear forgets the conversation, /exit (or Ctrl-D) leaves, Ctrl-C stops an answer"


@with_settings("config")
def chat(
    settings: Settings,
    url: Url = None,
    key: ApiKey = None,
    model: Annotated[str | None, typer.Option(help="Model (default: the first served).")] = None,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=2, help="Temperature.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest answer.")] = None,
) -> None:
    """Chat with the running service, streaming. A message on standard input gets one answer."""
    with connection(settings, url, key) as client:
        sampling = {"temperature": temperature, "max_tokens": max_tokens}
        conversation = Conversation(
            client,
            model or first_model(client),
            system,
            {name: value for name, value in sampling.items() if value is not None},
        )
        if sys.stdin.isatty():
            _converse(conversation)
        elif message := _piped():
            _answer(conversation, message)
        else:
            raise CommandError("there is no message on standard input")


class Piece(NamedTuple):
    """Text of an answer, or of the reasoning before it."""

    text: str
    reasoning: bool = False


@dataclass
class Timing:
    """Of one answer: seconds to its first text and to its end, tokens if the service said.
    cut: whether it ended because it reached its longest length."""

    first: float | None = None
    total: float = 0.0
    tokens: int | None = None
    cut: bool = False

    def __str__(self) -> str:
        return f"{self._speed()}, cut off at its longest length" if self.cut else self._speed()

    def _speed(self) -> str:
        if self.first is None:
            return f"no text, {self.total:.2f} s"
        if self.tokens is None:
            return f"first text after {self.first:.2f} s, {self.total:.2f} s in all"
        decoding = self.total - self.first
        rate = f", {(self.tokens - 1) / decoding:.1f} tokens/s" if decoding > 0 else ""
        return f"{self.tokens} tokens{rate}, first after {self.first:.2f} s"


@dataclass
class Conversation:
    """Messages so far, with a service that answers the last one."""

    client: httpx.Client
    model: str
    system: str | None
    sampling: dict[str, Any]
    turns: list[dict[str, str]] = field(default_factory=list)
    timing: Timing = field(default_factory=Timing)

    def clear(self) -> None:
        self.turns.clear()

    def ask(self, message: str) -> Generator[Piece, None, None]:
        """The answer's text as it comes, its reasoning first. Answers that were interrupted stay
        part of the conversation; reasoning and messages that failed do not.

        Raises CommandError if the service cannot be reached or refuses.
        """
        self.turns.append({"role": "user", "content": message})
        said: list[str] = []
        try:
            for piece in self._stream():
                if not piece.reasoning:
                    said.append(piece.text)
                yield piece
        finally:
            if said:
                self.turns.append({"role": "assistant", "content": "".join(said)})
            else:
                self.turns.pop()

    def _stream(self) -> Iterator[Piece]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        body = {
            "model": self.model,
            "messages": system + self.turns,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        start = time.monotonic()
        self.timing = Timing()
        with request(self.client, "POST", "/v1/chat/completions", body | self.sampling) as reply:
            for event in _events(reply):
                self.timing.total = time.monotonic() - start
                if usage := event.get("usage"):
                    self.timing.tokens = usage["completion_tokens"]
                for choice in event.get("choices", []):
                    self.timing.cut |= choice.get("finish_reason") == "length"
                    for name in ("reasoning_content", "content"):
                        if text := choice["delta"].get(name):
                            self.timing.first = self.timing.first or self.timing.total
                            yield Piece(text, reasoning=name != "content")


def _converse(conversation: Conversation) -> None:
    import readline  # noqa: F401  # line editing and history for input()

    typer.secho(f"{conversation.model} at {conversation.client.base_url}. {HELP}.", dim=True)
    while True:
        try:
            message = _typed().strip()
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            typer.secho(f"\n{HELP}.", dim=True)
            continue
        if message == "/exit":
            return
        if message == "/clear":
            conversation.clear()
        elif message.startswith("/"):
            typer.secho(f"{HELP}.", dim=True)
        elif message:
            try:
                _answer(conversation, message)
            except CommandError as error:
                typer.secho(str(error), fg="red", err=True)


def _piped() -> str:
    """The whole standard input. Raises CommandError if it is no text."""
    data = sys.stdin.buffer.read()
    try:
        return data.decode().strip()
    except UnicodeDecodeError as error:
        raise CommandError(
            f"standard input is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}"
        ) from None


def _typed() -> str:
    """A line, or all lines of a text that was pasted: they are there at once."""
    try:
        lines = [input("\n> ")]
        with contextlib.suppress(EOFError):  # the next prompt is told, too
            while select.select([sys.stdin], [], [], PASTE_SECONDS)[0]:
                lines.append(input())
    except UnicodeDecodeError:
        typer.secho("That is not UTF-8.", dim=True)
        return ""
    return "\n".join(lines)


def _answer(conversation: Conversation, message: str) -> None:
    """Print an answer while it comes, then how fast it was. Reasoning goes to a terminal alone,
    dimmed. Ctrl-C ends the answer, and with it the service's work, as the connection closes."""
    answer = conversation.ask(message)
    terminal, reasoning, stopped = sys.stdout.isatty(), False, ""
    try:
        for piece in answer:
            if not piece.reasoning:
                typer.echo("\n\n" * (reasoning and terminal) + piece.text, nl=False)
            elif terminal:
                typer.secho(piece.text, dim=True, nl=False)
            reasoning = piece.reasoning
    except KeyboardInterrupt:
        if not sys.stdin.isatty():
            raise
        stopped = "stopped, "
    finally:
        answer.close()
        typer.echo()
    typer.secho(f"[{stopped}{conversation.timing}]", dim=True, err=True)


def _events(reply: httpx.Response) -> Iterator[dict[str, Any]]:
    """The JSON of each server-sent event. Raises CommandError for an error event."""
    for line in _lines(reply):
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        event: dict[str, Any] = json.loads(data)
        if error := event.get("error"):
            raise CommandError(f"the answer broke off: {error['message']}")
        yield event


def _lines(reply: httpx.Response) -> Iterator[bytes]:
    """Lines as event streams have them. httpx splits at every Unicode line break, which may stand
    within an event's JSON."""
    rest = b""
    for data in reply.iter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.rstrip(b"\r") for line in lines)
    yield rest
