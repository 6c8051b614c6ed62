"""The one settings object: what this process was told, and by whom.

A value comes from the first that names it: a command-line flag, a `HEADRACE_*` environment
variable, `headrace.toml`, the default.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from headrace.hints import did_you_mean
from headrace.model_settings import EngineSettings, ModelSettings, SamplingSettings
from headrace.units import GIB, KIB, MIB

PREFIX = "HEADRACE_"
DEFAULT_FILE = Path("headrace.toml")

NOT_SETTINGS = ("HEADRACE_API_KEY", "HEADRACE_SUITES", "HEADRACE_TEST_")
"""Variables (and prefixes of them) that belong to clients and tests, not to the service."""


class SettingsError(ValueError):
    """A setting is unknown or its value is not usable; the message says which and where."""


def _xdg(variable: str, default: str) -> Path:
    """A base directory by the XDG specification, which asks to ignore relative ones."""
    base = Path(os.environ.get(variable, ""))
    return base if base.is_absolute() else Path.home() / default


class ClassSettings(BaseModel):
    """What differs from the usual for a class of requests; `dispatch.policy.ClassPolicy` says what
    each means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: Annotated[float | None, Field(gt=0, le=1e6)] = None
    floor: Annotated[float | None, Field(ge=0, le=0.5)] = None
    max_queue: Annotated[int | None, Field(ge=0, le=1 << 20)] = None
    deadline: Annotated[float | None, Field(gt=0, le=1e6)] = None
    age: Annotated[float | None, Field(gt=0, le=1e6)] = None


def _names(value: object) -> object:
    """Names from one text, or from texts that each may hold several. The commas of a source of
    several packages stay."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return texts
    parts = [[text] if text.startswith("pypi:") else text.split(",") for text in texts]
    return list(dict.fromkeys(name.strip() for part in parts for name in part))


class Settings(EngineSettings, BaseSettings):
    """What is in force. Keyword arguments are the flags that were given.

    Raises:
        SettingsError: an unknown name or an unusable value, from whichever source.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    config: Annotated[
        Path | None, Field(description="File of settings (default: ./headrace.toml if it exists).")
    ] = None
    host: Annotated[str, Field(min_length=1, description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, le=65535, description="TCP port to listen on; 0 takes a free one.")
    ] = 8080
    data_dir: Annotated[
        Path,
        Field(
            description="Folder of this installation: its database and the secret that hashes keys."
        ),
    ] = Field(default_factory=lambda: _xdg("XDG_DATA_HOME", ".local/share") / "headrace")
    models_dir: Annotated[
        Path, Field(description="Downloaded models; many data directories may share it.")
    ] = Field(default_factory=lambda: _xdg("XDG_CACHE_HOME", ".cache") / "headrace" / "models")
    bootstrap_key: Annotated[
        SecretStr | None,
        Field(description="An admin and inference key, hr-<id>_<secret>, valid from the start."),
    ] = None
    model: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        NoDecode,
        BeforeValidator(_names),
        Field(
            min_length=1,
            description="Model to serve: a catalogue name, a path or a source. Several are a list,"
            " the flag again, or names apart by commas; the first is the default.",
        ),
    ] = ("smollm2-135m",)
    models: Annotated[
        dict[str, dict[str, Any]],
        Field(description="Further models, and what holds for one: tables of the file."),
    ] = Field(default_factory=dict)
    database_url: Annotated[
        str | None,
        Field(description="SQLAlchemy URL of the database (default: SQLite in the data dir)."),
    ] = None
    auto_migrate: Annotated[
        bool, Field(description="Whether an older schema of the database is migrated when opened.")
    ] = True
    valkey_url: Annotated[
        str | None,
        Field(
            pattern=r"^(valkeys?|rediss?|unix)://",
            description="URL of the Valkey or Redis where edges count quotas together (default: a"
            " service of one edge, which counts in memory).",
        ),
    ] = None
    isa: Annotated[
        Literal["avx512", "avx2", "neon", "scalar"] | None,
        Field(description="Instruction set of the kernels (default: the best there is)."),
    ] = None
    memory: Annotated[
        ByteSize | None,
        Field(
            ge=MIB,
            le=1 << 50,
            description="Memory that engines may hold together, e.g. 4GiB (default: no limit).",
        ),
    ] = None
    published_prefixes: Annotated[
        Path | None,
        Field(description="Folder of *.txt: system prompts whose cache all tenants share."),
    ] = None
    max_body_bytes: Annotated[
        ByteSize, Field(ge=KIB, le=GIB, description="Largest request body, e.g. 16MiB.")
    ] = ByteSize(16 * MIB)
    max_queue: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 20,
            description="Requests of a class that may wait; more are shed with 529.",
        ),
    ] = 1024
    classes: Annotated[
        dict[Literal["interactive", "default", "batch"], ClassSettings],
        NoDecode,
        Field(description="By class: share, floor, max_queue, deadline and age; a table, or JSON."),
    ] = {}
    max_choices: Annotated[
        int, Field(ge=1, le=4096, description="Prompts times choices in one request.")
    ] = 128
    max_connections: Annotated[
        int,
        Field(
            ge=16,
            le=1 << 20,
            description="Client connections open at once, if the limit of open files allows it.",
        ),
    ] = 4096
    head_timeout: Annotated[
        float, Field(gt=0, le=1e6, description="Seconds that the head of a request may take.")
    ] = 10.0
    body_timeout: Annotated[
        float,
        Field(gt=0, le=1e6, description="Seconds that may pass without a byte of a body."),
    ] = 20.0
    body_min_rate: Annotated[
        ByteSize,
        Field(
            ge=1,
            le=GIB,
            description="Bytes a second that a body must reach, behind body_timeout seconds.",
        ),
    ] = ByteSize(4 * KIB)
    write_timeout: Annotated[
        float,
        Field(gt=0, le=1e6, description="Seconds in which a client must read what it is sent."),
    ] = 60.0
    keep_alive_timeout: Annotated[
        float,
        Field(gt=0, le=1e6, description="Seconds that a connection stays open without a request."),
    ] = 120.0
    shutdown_grace: Annotated[
        float,
        Field(ge=0, le=1e6, description="Seconds that requests have to finish when it stops."),
    ] = 30.0
    metrics: Annotated[
        Literal["auto", "open", "admin"],
        Field(
            description="Who may read /metrics: everyone (open), keys with the scope admin (admin),"
            " or everyone only while the service listens on loopback (auto).",
        ),
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="Least level logged.")
    ] = "info"

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    def __init__(self, **flags: Any) -> None:
        _refuse_unknown_variables()
        for name, flag in flags.items():
            if _has_empty(flag):
                raise SettingsError(f"{flag_of(name)} is empty: give it a value, or leave it out")
        file = ConfigFile(type(self), flags.get("config"))
        origins = _origins(flags, file)
        try:
            super().__init__(**flags)
        except ValidationError as error:
            raise SettingsError(_explain(error, origins)) from None
        self._origins = origins

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, ConfigFile(settings_cls)

    @field_validator("config", "data_dir", "models_dir", "published_prefixes", mode="after")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return path and path.expanduser().absolute()

    @field_validator("classes", mode="before")
    @classmethod
    def _from_json(cls, classes: Any) -> Any:
        """A flag or a variable is text."""
        return json.loads(classes) if isinstance(classes, str) else classes

    @field_validator("bootstrap_key", mode="after")
    @classmethod
    def _key_shape(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            head, _, secret = key.get_secret_value().partition("_")
            if not (head.startswith("hr-") and head[3:] and secret and head.isascii()):
                raise ValueError("must look like hr-<id>_<secret>")
        return key

    @model_validator(mode="after")
    def _tables(self) -> Settings:
        """Every table is right, whether or not anything is served now."""
        for name in self.models:
            self.of_model(name)
        return self

    @property
    def served(self) -> tuple[str, ...]:
        """The models to serve, the default first: those that `model` names, and those that have
        a table."""
        return tuple(dict.fromkeys((*self.model, *self.models)))

    def of_model(self, name: str) -> ModelSettings:
        """What holds for one model. Raises ValueError naming the table's setting at fault."""
        try:
            return ModelSettings.of(self, self.models.get(name, {}))
        except ValidationError as error:
            raise ValueError(_explain_table(name, error)) from None

    def origin(self, name: str) -> str:
        """Where a setting's value came from: "flag --port", "HEADRACE_PORT", a file's path
        or "default"."""
        return self._origins.get(name, "default")


class ConfigFile(PydanticBaseSettingsSource):
    """The lowest source: a TOML file of settings by their names.

    It is the file that a flag or `HEADRACE_CONFIG` names, which must exist, or
    `headrace.toml` in the working directory, which need not.
    """

    def __init__(self, settings_cls: type[BaseSettings], flag: str | Path | None = None) -> None:
        super().__init__(settings_cls)
        self._flag = flag

    @property
    def path(self) -> Path:
        named = self._flag or self.current_state.get("config") or os.environ.get("HEADRACE_CONFIG")
        return Path(named).expanduser() if named else DEFAULT_FILE

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        path = self.path
        try:
            values = tomllib.loads(path.read_text())
        except FileNotFoundError:
            if path is DEFAULT_FILE:
                return {}
            raise SettingsError(f"{path}: no such file of settings") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"{path}: {error}") from None
        known = [name for name in Settings.model_fields if name != "config"]
        for name in values:
            if _has_empty(values[name]):
                raise SettingsError(f"{path}: {name} is empty: give it a value, or leave it out")
            if name not in known:
                raise SettingsError(f"{path}: unknown setting {name!r}{did_you_mean(name, known)}")
        return values


def flag_of(name: str) -> str:
    """The command-line spelling of a setting's name."""
    return f"--{name.replace('_', '-')}"


def _has_empty(value: object) -> bool:
    """Whether it is an empty text, or has one in it."""
    if isinstance(value, dict):
        return any(map(_has_empty, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_empty, value))
    return isinstance(value, str) and not value.strip()


def _refuse_unknown_variables() -> None:
    known = [PREFIX + name.upper() for name in Settings.model_fields if name != "models"]
    for variable in os.environ:
        upper = variable.upper()  # pydantic-settings matches them in any case
        if upper in known and not os.environ[variable].strip():
            raise SettingsError(f"{variable} is empty: give it a value, or leave it out")
        if upper.startswith(PREFIX) and not upper.startswith(NOT_SETTINGS) and upper not in known:
            raise SettingsError(
                f"unknown environment variable {variable}{did_you_mean(upper, known)}"
            )


def _origins(flags: Mapping[str, Any], file: ConfigFile) -> dict[str, str]:
    variables = {name.upper() for name in os.environ}
    from_file = {name: str(file.path) for name in file()}
    from_environment = {
        name: variable
        for name in Settings.model_fields
        if (variable := PREFIX + name.upper()) in variables
    }
    return from_file | from_environment | {name: f"flag {flag_of(name)}" for name in flags}


def _explain_table(model: str, error: ValidationError) -> str:
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    where = "".join(f".{part}" for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        within = SamplingSettings if len(first["loc"]) > 1 else ModelSettings
        name = str(first["loc"][-1])
        reason = f"unknown setting{did_you_mean(name, within.model_fields)}"
    return f"models.{model}{where}: {reason[0].lower()}{reason[1:]}"


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    """One sentence for the first fault. It never quotes the value, which may be a secret."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    reason = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        # Of several settings together, which it names.
        return f"{origins['models']}: {reason}" if reason.startswith("models.") else reason
    name = str(first["loc"][0])
    reason = reason[0].lower() + reason[1:]
    if first["type"] == "extra_forbidden":
        return f"unknown setting {name!r}{did_you_mean(name, Settings.model_fields)}"
    return f"{name} (from {origins.get(name, 'default')}): {reason}"
