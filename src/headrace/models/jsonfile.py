"""Reading the JSON files that stand beside safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.models.errors import ModelFileError


def read_object(path: Path) -> dict[str, Any]:
    """The object a JSON file holds. Raises ModelFileError if it cannot be read or holds none."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFileError(path, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(path, "must hold a JSON object")
    return value
