from __future__ import annotations

from pathlib import Path

from headrace.text.codec import Codec


def huggingface_codec(path: Path) -> Codec:
    raise NotImplementedError
