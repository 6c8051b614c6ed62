"""What is known of a model before it is on disk, and the models that Headrace knows by name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from headrace.models.sampling import SamplingDefaults
from headrace.models.sources import Source, parse_source
from headrace.models.version import ModelVersion
from headrace.routing.tier import Tier

VERSION_DIGITS = 12


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the catalogue. The default version is the one `sha256` names; without it, the
    one installed last from one of its sources.

    source: where the files lie; mirrors: where else the same files lie, tried in turn. family:
    as GGUF calls the architecture. parameters: in all; active_parameters: computed for a token,
    where that is fewer. size: bytes to download. context: tokens. layers, kv_heads, head_size:
    of the KV cache. gated: the hub asks for an account that accepted the licence. tested:
    Headrace's own tests run it.
    """

    name: str
    source: str
    mirrors: tuple[str, ...] = ()
    licence: str | None = None
    sha256: str | None = None
    size: int | None = None
    description: str = ""
    tier: Tier | None = None
    family: str | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    context: int | None = None
    layers: int | None = None
    kv_heads: int | None = None
    head_size: int | None = None
    gated: bool = False
    tested: bool = False
    sampling: SamplingDefaults = SamplingDefaults()

    @property
    def version(self) -> str | None:
        return self.sha256[:VERSION_DIGITS] if self.sha256 else None

    @property
    def sources(self) -> tuple[Source, ...]:
        """In the order in which they are tried."""
        return tuple(map(parse_source, (self.source, *self.mirrors)))

    def is_met_by(self, version: ModelVersion) -> bool:
        if self.sha256:
            return version.sha256 == self.sha256
        return version.source in (self.source, *self.mirrors)


@cache
def known_models() -> Mapping[str, ModelEntry]:
    """The entries of catalogue.toml by their names, in its order."""
    text = files("headrace.models").joinpath("catalogue.toml").read_text("utf-8")
    return {name: _entry(name, table) for name, table in tomllib.loads(text).items()}


def _entry(name: str, table: Mapping[str, Any]) -> ModelEntry:
    source, *mirrors = table["sources"]
    rest = {key: value for key, value in table.items() if key != "sources"}
    return msgspec.convert({"name": name, "source": source, "mirrors": mirrors, **rest}, ModelEntry)
