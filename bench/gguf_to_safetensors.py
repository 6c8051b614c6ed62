"""Write a GGUF's weights as a Hugging Face folder in bfloat16, for an engine that reads no GGUF.

    python gguf_to_safetensors.py MODEL.gguf FOLDER

It runs in the peer's environment: it needs torch, transformers, gguf and accelerate.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(gguf: Path, folder: Path) -> None:
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    loaded = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = loaded.config
    del config.quantization_config  # a model that came from a GGUF refuses to be saved
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(loaded.state_dict())
    model.to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
