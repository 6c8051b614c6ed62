"""What Valkey runs: each script whole and at once, by its own clock."""

from __future__ import annotations

from importlib.resources import files


def read_script(name: str) -> str:
    """The text of a script, with what all of them begin with."""
    folder = files(__name__)
    return "\n".join((folder / f"{part}.lua").read_text() for part in ("common", name))
