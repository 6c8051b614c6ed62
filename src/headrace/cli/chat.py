"""`headrace chat`: talk to a running service from a terminal, or from a script through a pipe."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.flags import with_settings
from headrace.cli.output import CommandError
from headrace.cli.remote import ApiKey, Url, connection, request
from headrace.settings import Settings

if TYPE_CHECKING:
    import httpx

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
            model or _first_model(client),
            system,
            {name: value for name, value in sampling.items() if value is not None},
        )
        if sys.stdin.isatty():
            _converse(conversation)
        elif message := sys.stdin.read().strip():
            _answer(conversation, message)
        else:
            raise CommandError("there is no message on standard input")


@dataclass
class Timing:
    """Of one answer: seconds to its first text and to its end, tokens if the service said."""

    first: float | None = None
    total: float = 0.0
    tokens: int | None = None

    def __str__(self) -> str:
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

    def ask(self, message: str) -> Generator[str, None, None]:
        """The answer's text as it comes. What came before an interruption stays part of the
        conversation; a message that failed does not.

        Raises CommandError if the service cannot be reached or refuses.
        """
        self.turns.append({"role": "user", "content": message})
        said: list[str] = []
        try:
            for text in self._stream():
                said.append(text)
                yield text
        finally:
            if said:
                self.turns.append({"role": "assistant", "content": "".join(said)})
            else:
                self.turns.pop()

    def _stream(self) -> Iterator[str]:
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
                    if text := choice["delta"].get("content"):
                        self.timing.first = self.timing.first or self.timing.total
                        yield text


def _converse(conversation: Conversation) -> None:
    import readline  # noqa: F401  # line editing and history for input()

    typer.secho(f"{conversation.model} at {conversation.client.base_url}. {HELP}.", dim=True)
    while True:
        try:
            message = input("\n> ").strip()
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


def _answer(conversation: Conversation, message: str) -> None:
    """Print an answer while it comes, then how fast it was. Ctrl-C ends it, and with it the
    service's work, as the connection closes."""
    answer = conversation.ask(message)
    stopped = ""
    try:
        for text in answer:
            typer.echo(text, nl=False)
    except KeyboardInterrupt:
        if not sys.stdin.isatty():
            raise
        stopped = "stopped, "
    finally:
        answer.close()
        typer.echo()
    typer.secho(f"[{stopped}{conversation.timing}]", dim=True, err=True)


def _first_model(client: httpx.Client) -> str:
    with request(client, "GET", "/v1/models", None) as reply:
        reply.read()
        models = reply.json()["data"]
    if not models:
        raise CommandError(f"the service at {client.base_url} serves no model")
    return str(models[0]["id"])


def _events(reply: httpx.Response) -> Iterator[dict[str, Any]]:
    """The JSON of each server-sent event. Raises CommandError for an error event."""
    for line in reply.iter_lines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        event: dict[str, Any] = json.loads(data)
        if error := event.get("error"):
            raise CommandError(f"the answer broke off: {error['message']}")
        yield event
