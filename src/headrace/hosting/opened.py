"""What a model's files say of it, weights apart."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import structlog

from headrace.edge.services import ServedModel
from headrace.engine.blocks import blocks_for
from headrace.fleet.config import WorkerConfig
from headrace.fleet.draft import open_draft
from headrace.fleet.memory import memory_of
from headrace.fleet.sizes import sizes_for
from headrace.hosting.plan import Claim
from headrace.hosting.spec import ModelSpec
from headrace.hosting.words import Words
from headrace.models.model import Model, open_model
from headrace.ops.backend import kv_block_bytes
from headrace.ops.cpu import CpuBackend
from headrace.text.reasoning import MARKERS
from headrace.text.template import DEFAULT_TEMPLATE, PLAIN_TURNS, ChatTemplate

log = structlog.get_logger("headrace.hosting")

NUMERICS = "cpu-2"
"""Raised when the same weights and seed begin to give other tokens."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A model as it would be served. memory: bytes that its worker holds at most."""

    served: ServedModel
    memory: int


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A version's mapped files."""

    model: Model
    draft: Model | None

    @classmethod
    def of(cls, spec: ModelSpec) -> OpenedModel:
        """Takes half a second where the vocabulary is large. Raises what `open_model` and
        `open_draft` raise."""
        config = spec.config
        model = open_model(Path(config.path), quantization=config.quantization)
        return cls(model, open_draft(config, model))

    def words(self, tool_format: str | None) -> Words:
        """Takes a second where the vocabulary is large. Raises TokenizerError and
        TemplateError."""
        return Words.of(self.model, tool_format)

    def claim(self, spec: ModelSpec) -> Claim:
        """What it asks of a budget that all models share."""
        config = spec.config
        held = memory_of(config, self.model, self.draft)
        block = sum(
            kv_block_bytes(each.program, CpuBackend.kv_row_bytes, config.kv_cache)
            for each in (self.model, self.draft)
            if each is not None
        )
        context = config.context_length or self.model.context_length
        least = config.kv_memory or block
        return Claim(
            spec.label,
            least=held.peak(least),
            whole=held.peak(config.kv_memory or block * blocks_for(context)),
            elastic=config.kv_memory is None,
            always=spec.load == "start",
        )

    def sized(self, spec: ModelSpec) -> Sized:
        """Raises DoesNotFit."""
        config = spec.config
        sizes = sizes_for(config, self.model, CpuBackend.kv_row_bytes, self.draft)
        self._tell(spec)
        sources = [self.model.chat_template or DEFAULT_TEMPLATE, self.model.tool_template or ""]
        templates = [ChatTemplate(source, bos_token="", eos_token="") for source in sources]
        served = ServedModel(
            name=spec.version.name,
            version=spec.version.version,
            created=int(spec.version.installed_at),
            context_length=sizes.context_length,
            vocab_size=self.model.program.vocab_size,
            fingerprint=_fingerprint(spec.version.sha256, config),
            long_from=spec.long_from or max(1, sizes.context_length // 4),
            tier=spec.tier,
            current=spec.current,
            tools=any("tools" in template.variables for template in templates),
            reasoning=any(closing in "".join(sources) for _, closing in MARKERS),
            sampling=spec.sampling.over(self.model.sampling),
            default_max_tokens=spec.default_max_tokens,
        )
        return Sized(served, sizes.memory)

    def _tell(self, spec: ModelSpec) -> None:
        """Log what callers might not expect of its answers."""
        if self.model.chat_template is None:
            log.warning("chat_template_missing", model=spec.label, used=PLAIN_TURNS)
        if self.model.ignored:
            log.warning("model_settings_ignored", model=spec.label, settings=self.model.ignored)


def _fingerprint(sha256: str, config: WorkerConfig) -> str:
    # The context decides how some ropes are stretched.
    chosen = (config.kv_cache, config.quantization, config.context_length)
    determined_by = f"{sha256} {NUMERICS} {chosen}"
    return f"fp_{hashlib.sha256(determined_by.encode()).hexdigest()[:10]}"
