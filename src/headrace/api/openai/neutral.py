"""Values by which a parameter changes nothing, so that they are accepted.

They are the defaults of OpenAI's API, of other servers that speak it (vLLM, llama.cpp, SGLang) and
of their clients. docs/leniency.md has them too; a test holds both together.
"""

from __future__ import annotations

from headrace.api.reader import Neutral

_BOTH: Neutral = {
    # OpenAI's
    "moderation": (),
    "prompt_cache_retention": ('"in_memory"', '"in-memory"', '"24h"'),
    "store": ("false",),
    # vLLM's
    "allowed_token_ids": (),
    "bad_words": ("[]",),
    "cache_salt": (),
    "early_stopping": ("false",),
    "guided_decoding_backend": ('"auto"',),
    "guided_whitespace_pattern": (),
    "include_stop_str_in_output": ("false",),
    "kv_transfer_params": (),
    "length_penalty": ("1",),
    "logits_processors": ("[]",),
    "priority": ("0",),
    "prompt_logprobs": ("false",),
    "return_token_ids": ("false",),
    "return_tokens_as_token_ids": ("false",),
    "skip_special_tokens": ("true",),
    "spaces_between_special_tokens": ("true",),
    "truncate_prompt_tokens": (),
    "use_beam_search": ("false",),
    "vllm_xargs": ("{}",),
    # llama.cpp's, and of servers built on it
    "cache_prompt": ("true",),
    "dry_allowed_length": None,
    "dry_base": None,
    "dry_multiplier": ("0",),
    "dry_penalty_last_n": None,
    "dry_sequence_breakers": None,
    "dynatemp_exponent": None,
    "dynatemp_range": ("0",),
    "grammar": ('""',),
    "id_slot": ("-1",),
    "json_schema": (),
    "lora": ("[]",),
    "min_keep": ("0",),
    "mirostat": ("0",),
    "mirostat_eta": None,
    "mirostat_tau": None,
    "n_keep": ("0", "-1"),
    "n_predict": ("-1",),
    "n_probs": ("0",),
    "post_sampling_probs": ("false",),
    "repeat_last_n": ("-1",),
    "repeat_penalty": ("1",),
    "return_progress": ("false",),
    "tfs_z": ("1",),
    "timings_per_token": ("false",),
    "top_a": ("0",),
    "top_n_sigma": ("-1", "0"),
    "typical_p": ("1",),
    "xtc_probability": ("0",),
    "xtc_threshold": None,
    # SGLang's
    "ebnf": (),
    "lora_path": (),
    "no_stop_trim": ("false",),
    "regex": (),
    "return_hidden_states": ("false",),
}

CHAT: Neutral = {
    **_BOTH,
    "add_special_tokens": ("false",),
    "audio": (),
    "best_of": ("1",),
    "chat_template": (),
    "documents": ("[]",),
    "echo": ("false",),
    "function_call": ('"none"', '"auto"'),
    "functions": ("[]",),
    "include_reasoning": ("true",),
    "mm_processor_kwargs": ("{}",),
    "modalities": ('["text"]',),
    "parse_tool_calls": ("true",),
    "prediction": (),
    "reasoning_format": ('"auto"', '"deepseek"'),
    "separate_reasoning": ("true",),
    "stream_reasoning": ("true",),
    "suffix": ('""',),
    "thinking_forced_open": ("false",),
    "verbosity": ('"medium"',),
    "web_search_options": (),
}

COMPLETIONS: Neutral = {
    **_BOTH,
    "add_special_tokens": ("true",),
    "logprobs": ("false",),
    "response_format": ('{"type":"text"}',),
}
