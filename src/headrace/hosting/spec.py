"""What is to be served of a model, known before anything of it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import ByteSize

from headrace.dispatch.policy import Policies, adjusted, usual_policies
from headrace.fleet.config import WorkerConfig
from headrace.fleet.cores import usable_cores
from headrace.model_settings import EngineSettings, ModelSettings
from headrace.models.entry import ModelEntry
from headrace.models.sampling import SamplingDefaults
from headrace.models.version import ModelVersion
from headrace.routing.tier import Tier
from headrace.settings import Settings, SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A version and how it is served.

    tier: whose requests it may get. current: whether the model's bare name means this version.
    load: when it is loaded. idle_unload: seconds. max_queue: most requests that wait for it to be
    loaded; policies: by which they wait then. tool_format: None for its template's. long_from:
    tokens of a long prompt; None for a quarter of the context. sampling: how tokens are drawn where
    a request does not say; it comes before what the model's files state. default_max_tokens: of an
    answer whose request names no limit.
    """

    version: ModelVersion
    config: WorkerConfig
    tier: Tier | None = None
    current: bool = True
    load: Literal["start", "demand"] = "start"
    idle_unload: float | None = None
    max_queue: int = 1024
    policies: Policies = field(default_factory=lambda: usual_policies(1024))
    tool_format: str | None = None
    long_from: int | None = None
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    default_max_tokens: int = 4096

    @property
    def label(self) -> str:
        return f"{self.version.name}@{self.version.version}"


def spec_of(
    settings: Settings,
    model: ModelSettings,
    version: ModelVersion,
    draft: ModelVersion | None,
    entry: ModelEntry,
    *,
    current: bool = True,
) -> ModelSpec:
    """entry: the catalogue's. A version that is not current is loaded when it is asked for."""
    return ModelSpec(
        version=version,
        config=worker_config(settings, model, version, draft),
        tier=model.tier or entry.tier,
        current=current,
        load=model.load if current else "demand",
        idle_unload=model.idle_unload,
        max_queue=settings.max_queue,
        policies=policies_of(settings),
        tool_format=model.tool_format,
        long_from=model.long_from,
        sampling=SamplingDefaults(**model.sampling.model_dump()).over(entry.sampling),
        default_max_tokens=model.default_max_tokens,
    )


def policies_of(settings: Settings) -> Policies:
    """Of the classes. Raises SettingsError."""
    changes = {name: each.model_dump(exclude_none=True) for name, each in settings.classes.items()}
    try:
        return adjusted(usual_policies(settings.max_queue), changes)
    except ValueError as error:
        raise SettingsError(f"classes: {error}") from None


def worker_config(
    settings: Settings, model: EngineSettings, version: ModelVersion, draft: ModelVersion | None
) -> WorkerConfig:
    """model: what holds for this one; `memory` is left to whoever plans for all."""
    return WorkerConfig(
        path=str(version.path),
        model=version.name,
        version=version.version,
        isa=settings.isa,
        quantization=model.quantization,
        threads=model.threads,
        kv_memory=_bytes(model.kv_memory),
        kv_cache=model.kv_cache,
        max_sequences=model.max_sequences,
        max_step_tokens=model.max_step_tokens or usual_step_tokens(model),
        context_length=model.context_length,
        prefix_cache=model.prefix_cache,
        repetition_stop=model.repetition_stop,
        target_itl=model.target_itl,
        target_throughput=model.target_throughput,
        speculate=model.speculate,
        speculate_tokens=model.speculate_tokens,
        draft_path=None if draft is None else str(draft.path),
        log_level=settings.log_level,
    )


def usual_step_tokens(model: EngineSettings) -> int:
    """Few cores compute 128 rows as well as 512, and nobody waits long for a step; many need more
    rows to share."""
    threads = model.threads or usable_cores()
    return max(2 * model.max_sequences, min(512, 64 * threads))


def _bytes(size: ByteSize | None) -> int | None:
    """A plain int, as messages carry."""
    return None if size is None else int(size)
