"""How a model is served: for all models by a setting, for one by its table in the file.

[models."qwen2.5-coder-0.5b"]
tier = "medium"
load = "demand"
sampling = { temperature = 0.2, top_p = 0.9 }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ByteSize, ConfigDict, Field, model_validator

from headrace.routing.tier import Tier


class SamplingSettings(BaseModel):
    """How a model's tokens are drawn where a request does not say; None leaves it to the
    catalogue's entry, then to the model's files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(ge=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=0, le=2**31 - 1)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    repetition_penalty: Annotated[float | None, Field(ge=0.01, le=100)] = None


class EngineSettings(BaseModel):
    """What holds for every model unless its own table says otherwise."""

    threads: Annotated[
        int | None,
        Field(ge=1, le=1024, description="Compute threads (default: one a physical core)."),
    ] = None
    quantization: Annotated[
        Literal["w8", "w4"] | None,
        Field(description="Bits that float matrices are quantised to (default: they stay float)."),
    ] = None
    kv_memory: Annotated[
        ByteSize | None,
        Field(
            ge=1 << 20,
            le=1 << 50,
            description="Memory for the KV cache (default: what --memory leaves, or 1GiB).",
        ),
    ] = None
    kv_cache: Annotated[
        Literal["int16", "int8"],
        Field(
            description="Codes of keys in the KV cache. int8 makes it a third smaller and long"
            " contexts quicker; Qwen 2 and others with outliers among their keys lose accuracy."
        ),
    ] = "int16"
    max_sequences: Annotated[
        int, Field(ge=1, le=65536, description="Sequences computed at once.")
    ] = 64
    max_step_tokens: Annotated[
        int | None,
        Field(
            ge=1,
            le=1 << 20,
            description="Tokens computed in one step, all sequences (default: 64 a thread, up to"
            " 512, or two a sequence if that is more).",
        ),
    ] = None
    target_itl: Annotated[
        float | None,
        Field(
            gt=0,
            le=60_000,
            description="Milliseconds between two tokens of an answer that prompts may cause.",
        ),
    ] = None
    target_throughput: Annotated[
        float | None,
        Field(
            gt=0,
            le=1e9,
            description="Tokens a second, prompts and answers, for which answers may be delayed.",
        ),
    ] = None
    speculate: Annotated[
        Literal["off", "ngram", "draft"],
        Field(description="Guess tokens ahead: from the text so far, or by --draft-model."),
    ] = "off"
    draft_model: Annotated[
        str | None,
        Field(min_length=1, description="Smaller model of the same tokenizer, to guess tokens."),
    ] = None
    speculate_tokens: Annotated[
        int, Field(ge=1, le=32, description="Most tokens guessed ahead of a sequence.")
    ] = 8
    context_length: Annotated[
        int | None,
        Field(ge=1, le=1 << 24, description="Longest sequence in tokens (default: the model's)."),
    ] = None
    prefix_cache: Annotated[
        bool, Field(description="Whether prompts reuse what earlier ones of their tenant computed.")
    ] = True
    repetition_stop: Annotated[
        bool,
        Field(description="Whether an answer with a form ends when it repeats itself endlessly."),
    ] = True
    tool_format: Annotated[
        Literal["hermes", "llama3", "mistral", "mistral-named", "gemma", "json"] | None,
        Field(
            description="How the model writes function calls (default: as its chat template does)."
        ),
    ] = None
    default_max_tokens: Annotated[
        int,
        Field(
            ge=1,
            le=1 << 24,
            description="Tokens of an answer in a chat whose request names no limit.",
        ),
    ] = 4096
    long_from: Annotated[
        int | None,
        Field(
            ge=1,
            le=1 << 24,
            description="A prompt of so many tokens is long: it waits, is priced and is limited"
            " apart (default: a quarter of the context).",
        ),
    ] = None

    @model_validator(mode="after")
    def _a_token_for_every_sequence(self) -> Self:
        if self.max_step_tokens is not None and self.max_step_tokens < self.max_sequences:
            raise ValueError(
                f"max_step_tokens ({self.max_step_tokens}) must be at least max_sequences"
                f" ({self.max_sequences}), so that every sequence can get its token in a step"
            )
        return self

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if self.target_itl is not None and self.target_throughput is not None:
            raise ValueError("target_itl and target_throughput exclude each other")
        return self

    @model_validator(mode="after")
    def _a_draft_to_guess(self) -> Self:
        if self.speculate == "draft" and self.draft_model is None:
            raise ValueError("speculate is draft, which needs a draft_model")
        if self.speculate != "draft" and self.draft_model is not None:
            raise ValueError(
                f"draft_model is set, but speculate is {self.speculate}; it must be draft"
            )
        return self


class ModelSettings(EngineSettings):
    """One model's, complete. Raises pydantic's ValidationError."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tier: Annotated[
        Tier | None, Field(description="Tier it is chosen for (default: the catalogue's).")
    ] = None
    sampling: Annotated[
        SamplingSettings,
        Field(description="How tokens are drawn where a request does not say; a table."),
    ] = SamplingSettings()
    load: Annotated[
        Literal["start", "demand"],
        Field(description="When it is loaded: at the start, or when it is first asked for."),
    ] = "start"
    idle_unload: Annotated[
        float | None,
        Field(gt=0, le=1e7, description="Seconds without a request after which it is unloaded."),
    ] = None

    @classmethod
    def of(cls, common: EngineSettings, table: Mapping[str, Any]) -> ModelSettings:
        """What the table says, and for the rest what holds for all. Settings that go together
        are taken together: a table with a target of its own has no other, and one that says how
        to guess says by which model."""
        together = {
            "target_itl": ("target_throughput",),
            "target_throughput": ("target_itl",),
            "speculate": ("draft_model",),
        }
        replaced = {other for name in table for other in together.get(name, ())}
        inherited = {name: getattr(common, name) for name in EngineSettings.model_fields}
        kept = {name: value for name, value in inherited.items() if name not in replaced}
        return cls.model_validate(kept | dict(table))
