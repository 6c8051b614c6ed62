"""config.json of a Hugging Face checkpoint, read as the keys that architectures ask for."""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import isfinite
from typing import Any

from headrace.models.architectures import rope as scaling
from headrace.models.architectures.hyperparameters import (
    MAX_CONTEXT,
    MAX_LAYERS,
    Hyperparameters,
    alternating,
    even_dims,
)
from headrace.ops.program import Rope

_NAMES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_weights_norm": "norm_topk_prob",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "attention.sliding_window_pattern": "sliding_window_pattern",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
}
_SLIDES = {"sliding_attention": True, "full_attention": False}
_ORIGINAL = "original_max_position_embeddings"


class ConfigKeys(Hyperparameters):
    """`name` is a GGUF key, or config.json's own where GGUF has none.

    tokens: how many the tokenizer knows; None: as many as the embedding has rows.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        architecture: str,
        context_length: int | None,
        tokens: int | None,
    ) -> None:
        super().__init__(config, architecture, context_length)
        self._tokens = tokens

    def key(self, name: str) -> str:
        if name == "activation":
            return "hidden_activation" if "hidden_activation" in self.metadata else "hidden_act"
        if name == "expert_count":
            return "num_local_experts" if "num_local_experts" in self.metadata else "num_experts"
        return _NAMES.get(name, name)

    def flag(self, name: str, default: bool) -> bool:
        # Where a config.json of Qwen 3 does not say, transformers leaves the weights as they are.
        if name == "expert_weights_norm" and self.architecture == "qwen3moe":
            default = False
        return super().flag(name, default)

    def number(self, name: str, default: float | None = None) -> float:
        return _number(self.key(name), self._value(name, default))

    def vocab_size(self) -> int:
        size = self.integer("vocab_size", 1, 1 << 24)
        return size if self._tokens is None else min(size, self._tokens)

    def longest(self) -> int:
        """The stated context is the original one where "dynamic" stretches it, and often where
        YaRN does."""
        rope = self._scaling(self._stated_rope(slides=False))
        if rope.kind == "dynamic":
            return round(min(rope.number("factor") * rope.stated_context, MAX_CONTEXT))
        if rope.kind == "yarn":
            stretched = min(rope.factor * rope.original, MAX_CONTEXT)
            return max(rope.stated_context, round(stretched))
        return rope.stated_context

    def _scaling(self, parameters: Mapping[str, Any]) -> _Scaling:
        context = self.integer("context_length", 1, MAX_CONTEXT)
        # Where the family states it beside the rope's parameters, it counts more.
        original = None
        if self.has(_ORIGINAL):
            original = self.integer(_ORIGINAL, 1, MAX_CONTEXT)
        # What Phi 3 called "su" and "yarn" at first became LongRoPE.
        old_names = ("su", "yarn") if self.architecture == "phi3" else ("su",)
        return _Scaling(parameters, context, original, old_names)

    def windows(self, layers: int, period: int | None) -> tuple[int | None, ...]:
        if not self.has("attention.sliding_window") or not self.flag("use_sliding_window", True):
            return (None,) * layers
        window = self.integer("attention.sliding_window", 1, MAX_CONTEXT)
        if self.has("layer_types"):
            return tuple(window if slides else None for slides in self._layer_types(layers))
        if self.has("max_window_layers"):
            first = self.integer("max_window_layers", 0, MAX_LAYERS)
            return tuple(window if layer >= first else None for layer in range(layers))
        period = self.integer("attention.sliding_window_pattern", 0, MAX_LAYERS, period or 0)
        return alternating(window, layers, period)

    def _layer_types(self, layers: int) -> list[bool]:
        kinds = self.metadata["layer_types"]
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise ValueError(f"key 'layer_types' must be a list of {layers} names")
        for kind in kinds:
            if kind not in _SLIDES:
                raise ValueError(
                    f"key 'layer_types' holds {kind!r}; {' and '.join(_SLIDES)} are known"
                )
        return [_SLIDES[kind] for kind in kinds]

    def rope(
        self,
        head_dim: int,
        tensors: Container[str],
        *,
        base: float,
        local_base: float | None,
        slides: bool,
        neighbours: bool,
    ) -> Rope:
        """As GGUF's, but rows are never side by side here."""
        stated = self._stated_rope(slides=slides)
        theta = self.number("rope.freq_base", base)
        if slides and local_base is not None:
            theta = self.number("rope.freq_base_swa", local_base)
            if stated is self._stated_rope(slides=False):  # said of all layers; it means the others
                stated = {}
        parameters = self._scaling(stated)
        share = parameters.number(
            "partial_rotary_factor", self.number("partial_rotary_factor", 1.0)
        )
        dims = int(head_dim * share)
        if not 2 <= dims <= head_dim:
            raise ValueError(
                f"key 'partial_rotary_factor' is {share}; it must lie above 0, up to 1"
            )
        plain = Rope(
            base=parameters.number("rope_theta", theta),
            dims=even_dims("partial_rotary_factor", dims),
            interleaved=False,
        )
        return parameters.scaled(plain, self.deployed())

    def _stated_rope(self, *, slides: bool) -> Mapping[str, Any]:
        """The rope's parameters by either name, of this kind of layer where each has its own."""
        for name in ("rope_parameters", "rope_scaling"):
            stated = self.metadata.get(name)
            if stated is None:
                continue
            if not isinstance(stated, dict):
                raise ValueError(f"key {name!r} must be an object")
            if not stated.keys() & _SLIDES.keys():
                return stated
            kind = next(kind for kind, value in _SLIDES.items() if value == slides)
            own = stated.get(kind)
            if not isinstance(own, dict):
                raise ValueError(f"key {name!r} must say what {kind} layers have")
            return own
        return {}


class _Scaling:
    """`rope_parameters` of config.json, once called `rope_scaling`.

    stated_context: what config.json states for the model. original: the context before any
    stretching; None: as the parameters say. longrope_names: older names of that kind.
    """

    def __init__(
        self,
        stated: Mapping[str, Any],
        stated_context: int,
        original: int | None,
        longrope_names: Container[str],
    ) -> None:
        self._stated = stated
        self.stated_context = stated_context
        kind = stated.get("rope_type", stated.get("type", "default"))
        self.kind = "longrope" if kind in longrope_names else kind
        own = stated.get(_ORIGINAL, stated_context)
        if type(own) is not int or not 1 <= own <= MAX_CONTEXT:
            raise ValueError(f"rope parameter {_ORIGINAL!r} is {own!r}, not a context length")
        self.original = original or own

    @property
    def factor(self) -> float:
        """How many times longer the context became."""
        return self.number("factor", self.stated_context / self.original)

    def number(self, name: str, default: float | None = None) -> float:
        value = self._stated.get(name)
        if value is None:
            value = default
        if value is None:
            raise ValueError(f"rope parameter {name!r} is missing, which {self.kind!r} needs")
        return _number(name, value)

    def scaled(self, plain: Rope, context: int) -> Rope:
        """context: of the longest sequence there can be. Raises ValueError naming a kind of
        scaling that we do not have."""
        match self.kind:
            case "default":
                return plain
            case "linear":
                return scaling.linear(plain, self.number("factor"))
            case "dynamic":
                return scaling.dynamic(plain, self.number("factor"), self.stated_context, context)
            case "llama3":
                return scaling.llama3(
                    plain,
                    self.number("factor"),
                    self.number("low_freq_factor"),
                    self.number("high_freq_factor"),
                    self.original,
                )
            case "yarn":
                return self._yarn(plain)
            case "longrope":
                return self._longrope(plain, "long" if context > self.original else "short")
        raise ValueError(
            f"rope type {self.kind!r} is not supported; default, linear, dynamic, yarn, llama3"
            " and longrope are"
        )

    def _yarn(self, plain: Rope) -> Rope:
        magnitude = scaling.yarn_magnitude(self.factor)
        if self._stated.get("mscale") and self._stated.get("mscale_all_dim"):
            magnitude = scaling.yarn_magnitude(self.factor, self.number("mscale"))
            magnitude /= scaling.yarn_magnitude(self.factor, self.number("mscale_all_dim"))
        truncate = self._stated.get("truncate", True)
        if type(truncate) is not bool:
            raise ValueError(f"rope parameter 'truncate' must be true or false, not {truncate!r}")
        return scaling.yarn(
            plain,
            self.factor,
            self.original,
            magnitude=self.number("attention_factor", magnitude),
            fast=self.number("beta_fast", 32.0),
            slow=self.number("beta_slow", 1.0),
            truncate=truncate,
        )

    def _longrope(self, plain: Rope, which: str) -> Rope:
        name, count = f"{which}_factor", plain.dims // 2
        factors = self._stated.get(name)
        if not isinstance(factors, list) or len(factors) != count:
            raise ValueError(f"rope parameter {name!r} must be a list of {count} numbers")
        magnitude = scaling.longrope_magnitude(self.factor, self.original)
        return scaling.longrope(
            plain,
            [_number(name, factor) for factor in factors],
            self.number("attention_factor", magnitude),
        )


def _number(name: str, value: object) -> float:
    """JSON does not tell 10000 from 10000.0."""
    if type(value) not in (int, float):
        raise ValueError(f"key {name!r} must be a number, not {type(value).__name__}")
    number = float(value)  # type: ignore[arg-type]
    if not (isfinite(number) and number > 0):
        raise ValueError(f"key {name!r} is {number}, not a positive number")
    return number
