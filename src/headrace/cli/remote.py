"""Talking to a running service over its API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.output import CommandError
from headrace.settings import Settings

if TYPE_CHECKING:
    import httpx

Url = Annotated[
    str | None, typer.Option(help="The service (default: this machine, at the port set).")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        help="API key (default: the bootstrap key that is set).",
        envvar="HEADRACE_API_KEY",
        show_envvar=True,
    ),
]


@contextmanager
def connection(settings: Settings, url: str | None, key: str | None) -> Iterator[httpx.Client]:
    """To the service of these settings, or to the one that is named."""
    import httpx

    service = _checked(url) if url else base_url(settings)
    headers = _headers(settings, key)
    timeout = httpx.Timeout(10, read=600)
    with httpx.Client(base_url=service, headers=headers, timeout=timeout) as client:
        yield client


def answer(
    client: httpx.Client, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What the service answers. Raises CommandError if it cannot be reached or refuses."""
    with request(client, method, path, body) as reply:
        reply.read()
        found: dict[str, Any] = reply.json()
        return found


def base_url(settings: Settings) -> str:
    """Where a service with these settings is reached from this machine."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
    host = everywhere.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def first_model(client: httpx.Client) -> str:
    """The model that the service lists first. Raises CommandError if it lists none."""
    found = answer(client, "GET", "/v1/models")
    models = found.get("data")
    if not models:
        raise CommandError(f"the service at {client.base_url} serves no model")
    return str(models[0]["id"])


def _checked(url: str) -> str:
    if not re.match(r"https?://[\w.:\[\]-]+", url):
        raise CommandError(f"{url!r} is not a URL like http://127.0.0.1:8080")
    return url.rstrip("/").removesuffix("/v1")


def _headers(settings: Settings, key: str | None) -> dict[str, str]:
    if key is None and settings.bootstrap_key is not None:
        key = settings.bootstrap_key.get_secret_value()
    return {"authorization": f"Bearer {key}"} if key else {}


@contextmanager
def request(
    client: httpx.Client, method: str, path: str, body: dict[str, Any] | None
) -> Iterator[httpx.Response]:
    """A good response, its body still to be read. Raises CommandError for any other."""
    import httpx

    try:
        with client.stream(method, path, json=body) as reply:
            if reply.is_error:
                reply.read()
                raise CommandError(_refusal(reply))
            yield reply
    except httpx.ConnectError:
        raise CommandError(
            f"no service answers at {client.base_url}; `headrace serve` starts one"
        ) from None
    except httpx.TransportError as error:
        raise CommandError(f"the connection to {client.base_url} failed: {error}") from None


def _refusal(reply: httpx.Response) -> str:
    """The service's reason, in its own words where it gave any."""
    if reply.status_code == 401:
        return "the key was refused; give one by --key or HEADRACE_API_KEY"
    try:
        reason = reply.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        reason = reply.reason_phrase or "no reason given"
    return f"the service refused ({reply.status_code}): {reason}"
