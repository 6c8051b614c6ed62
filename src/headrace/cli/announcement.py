"""What `headrace serve` says when it is up."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headrace import __version__
from headrace.cli.output import size

if TYPE_CHECKING:
    from headrace.edge.services import ModelStatus


def announce(
    models: Sequence[ModelStatus], address: tuple[str, int], first_key: str | Path | None
) -> None:
    """Say what runs, where, and how to talk to it. address: host and port of the listener.
    first_key: the text of a new key, which is shown here and nowhere else, or the file that has
    it."""
    url = _url(*address)
    served = ", ".join(f"{each.model.name} ({each.model.version})" for each in models)
    lines = [f"Headrace {__version__} serves {served} at {url}", *_engines(models)]
    if not ipaddress.ip_address(address[0]).is_loopback:
        lines.append("Other machines can reach this address, and nothing on the way is encrypted.")
    if isinstance(first_key, Path):
        lines.append(
            f"The first key, for administration and use, is in {first_key}. Read it, keep it in a "
            "safe place, and delete the file."
        )
    elif first_key is None:
        lines.append("Keys: headrace keys create --tenant NAME. Talk to it: headrace chat")
    else:
        lines += ["", *_first_steps(url, models[0].model.name, first_key)]
    typer.echo("\n".join([*lines, "README.md and docs/ tell the rest. Ctrl-C stops it."]))


def _engines(models: Sequence[ModelStatus]) -> Iterator[str]:
    """A line for each model; its name only where there are several."""
    from headrace.ops.backend import BLOCK_SIZE

    for each in models:
        name = f"{each.model.name}: " if len(models) > 1 else ""
        if each.deployment is None:
            yield f"{name}loaded on demand; its engine will take {size(each.memory)} at most"
        elif ready := each.deployment.places.status().worker.ready:
            yield (
                f"{name}{ready.isa}, {ready.threads} threads, room for "
                f"{ready.blocks * BLOCK_SIZE} tokens in all and {ready.context_length} in a "
                f"sequence, {ready.max_sequences} at once; the engine takes {size(ready.memory)} "
                "of memory at most"
            )


def _first_steps(url: str, model: str, key: str) -> list[str]:
    messages = [{"role": "user", "content": "Say hello."}]
    body = json.dumps({"model": model, "messages": messages, "temperature": 0})
    return [
        f"Your key, shown this once: {key}",
        "",
        f"  curl {url}/v1/chat/completions -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'",
        "",
        "  from openai import OpenAI",
        f'  client = OpenAI(base_url="{url}/v1", api_key="{key}")',
        "",
    ]


def _url(host: str, port: int) -> str:
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"
