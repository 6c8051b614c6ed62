"""The model that guesses for another."""

from __future__ import annotations

from pathlib import Path

from headrace.fleet.config import WorkerConfig
from headrace.fleet.errors import DoesNotFit
from headrace.models.model import Model, open_model
from headrace.text.tokenizer import Tokenizer


def open_draft(config: WorkerConfig, model: Model) -> Model | None:
    """The draft model that the configuration names, if it does.

    Raises DoesNotFit unless it knows as many tokens as `model`, and what `open_model` raises.
    """
    if config.draft_path is None:
        return None
    draft = open_model(Path(config.draft_path), config.context_length, config.quantization)
    if draft.program.vocab_size != model.program.vocab_size:
        raise DoesNotFit(
            f"the draft model {config.draft_path} has another tokenizer than {config.model}:"
            f" {draft.program.vocab_size} tokens and {model.program.vocab_size}"
        )
    return draft


def check_tokenizers(config: WorkerConfig, tokenizer: Tokenizer, draft: Model) -> None:
    """Raises DoesNotFit unless the draft model reads and writes the very tokens of `tokenizer`,
    and TokenizerError if its own is faulty."""
    other = Tokenizer.of_checkpoint(draft.metadata, draft.tokenizer_file)
    if other.fingerprint != tokenizer.fingerprint:
        raise DoesNotFit(
            f"the draft model {config.draft_path} has another tokenizer than {config.model}:"
            " the same ids stand for other texts"
        )
