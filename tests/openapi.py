"""Runs schemathesis against a service, as its users do."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

SETTINGS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 529]

[[operations]]
include-path = "/v1/messages/count_tokens"
phases.coverage.enabled = false
"""
"""A deadline of a millisecond is refused so. The body of a count is that of messages, less a few
fields, and its cases would be the same ones."""

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    "use_after_free",
    "ensure_resource_availability",
)


async def hold_to(
    document: dict[str, Any], url: str, key: str, folder: Path, *more: str, examples: int = 20
) -> None:
    """Fails with schemathesis's own report where the service at `url` is not as the document says.

    folder: for schemathesis's files. more: options of its command.
    """
    (folder / "schemathesis.toml").write_text(SETTINGS)
    path = folder / "openapi.json"
    path.write_text(json.dumps(document))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", str(path), f"--url={url}"),
        *("--header", f"Authorization: Bearer {key}", "--checks", ",".join(CHECKS)),
        *("--max-examples", str(examples), "--seed=7", "--no-shrink", "--request-timeout=60"),
        # How long a machine that others use takes to make data up is no fault of the service.
        *("--continue-on-failure", "--no-color", "--warnings=off"),
        *("--suppress-health-check=too_slow", *more),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    report, _ = await process.communicate()
    assert process.returncode == 0, report.decode()
