"""How a model's own files say that tokens should be drawn where a request does not say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec


class SamplingDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults of one model. None: nothing is stated. Ranges are those of requests.

    temperature: 0 to 2, where 0 is greedy. top_p, min_p: 0 to 1. top_k: 0 cuts nothing.
    repetition_penalty: 0.01 to 100, where 1 changes nothing.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def over(self, others: SamplingDefaults) -> SamplingDefaults:
        """These, and what others state where these state nothing."""
        named = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(others, **named)


Stated = tuple[SamplingDefaults, tuple[str, ...]]
"""The defaults, and `key=value` of what would change answers and is ignored."""

_RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (0, 2**31 - 1),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 100.0),
}

# Of generation_config.json: keys that leave answers as they are, and values that do nothing.
_HARMLESS = frozenset(
    {
        "_from_model_config",
        "bos_token_id",
        "cache_config",
        "cache_implementation",
        "decoder_start_token_id",
        "do_sample",
        "eos_token_id",
        "output_attentions",
        "output_hidden_states",
        "output_logits",
        "output_scores",
        "pad_token_id",
        "prompt_lookup_num_tokens",
        "return_dict_in_generate",
        "return_legacy_cache",
        "transformers_version",
        "use_cache",
    }
)
_NEUTRAL: Mapping[str, object] = {
    "diversity_penalty": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "guidance_scale": 1.0,
    "length_penalty": 1.0,
    "max_length": 20,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_beams": 1,
    "num_return_sequences": 1,
    "top_h": 1.0,
    "typical_p": 1.0,
}

_GGUF = "general.sampling."
_GGUF_NAMES = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repetition_penalty",
}
_GGUF_NEUTRAL: Mapping[str, object] = {"mirostat": 0, "xtc_probability": 0.0}
# They say nothing by themselves.
_GGUF_HARMLESS = frozenset({"mirostat_tau", "mirostat_eta", "xtc_threshold"})


def of_generation_config(config: Mapping[str, object]) -> Stated:
    """What generation_config.json says. `do_sample: false` is a temperature of 0."""
    named = {name: config[name] for name in _RANGES if config.get(name) is not None}
    sampling, ignored = _in_range(named, str)
    if config.get("do_sample") is False:
        sampling = msgspec.structs.replace(sampling, temperature=0.0)
    others = ((key, config[key]) for key in sorted(config.keys() - _RANGES.keys() - _HARMLESS))
    return sampling, (*ignored, *_effective(others, _NEUTRAL))


def of_gguf(metadata: Mapping[str, object]) -> Stated:
    """What the keys `general.sampling.*` say."""
    stated = {
        key.removeprefix(_GGUF): value
        for key, value in metadata.items()
        if key.startswith(_GGUF) and key.removeprefix(_GGUF) not in _GGUF_HARMLESS
    }
    named = {_GGUF_NAMES[key]: stated.pop(key) for key in _GGUF_NAMES if key in stated}
    file_names = {name: f"{_GGUF}{key}" for key, name in _GGUF_NAMES.items()}
    sampling, ignored = _in_range(named, file_names.__getitem__)
    others = _effective(sorted(stated.items()), _GGUF_NEUTRAL)
    return sampling, (*ignored, *(f"{_GGUF}{other}" for other in others))


def _in_range(named: Mapping[str, object], file_name: Callable[[str], str]) -> Stated:
    """Values outside their range are ignored. `top_k: -1` cuts nothing."""
    kept: dict[str, float] = {}
    ignored = []
    for name, value in named.items():
        value = 0 if name == "top_k" and value == -1 else value
        if (number := _number(name, value)) is None:
            ignored.append(f"{file_name(name)}={value!r}")
        else:
            kept[name] = number
    return msgspec.convert(kept, SamplingDefaults), tuple(ignored)


def _number(name: str, value: object) -> float | None:
    """The value as requests have it; None where it is none."""
    least, most = _RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not least <= value <= most or (name == "top_k" and value != int(value)):
        return None
    # GGUF has 0.6 in 32 bits, which would be shown as 0.6000000238418579.
    return int(value) if name == "top_k" else float(f"{value:.6g}")


def _effective(
    pairs: Iterable[tuple[str, object]], neutral: Mapping[str, object]
) -> tuple[str, ...]:
    """Those that are set to something."""
    return tuple(
        f"{key}={value!r}"[:200]
        for key, value in pairs
        if value not in (None, False, [], {}) and value != neutral.get(key, ...)
    )
