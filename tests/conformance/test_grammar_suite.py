"""JSON-Schema-Test-Suite against what our grammars accept, with a list that may only shrink.

A document counts as accepted where any spelling of it is: its keys in any order, a whole number as
`1` or `1.0`. So that order and spelling, which our documents have one of, hide nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing.exceptions

from headrace.grammar import GrammarError, json_schema
from tests.grammar.following import accepts, matcher

RATCHET = Path(__file__).with_name("grammar_ratchet.json")
DRAFTS = ("draft2020-12", "draft7")
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
Findings = dict[str, list[str]]


@pytest.fixture(scope="module")
def findings(suites: Path) -> Findings:
    root = suites / "json-schema"
    found: Findings = {"accepted": [], "refused": [], "rejected": []}
    for draft in DRAFTS:
        for file in sorted((root / draft).rglob("*.json")):
            name = file.relative_to(root).with_suffix("").as_posix()
            for case in json.loads(file.read_text()):
                _look(found, f"{name}: {case['description']}", case, draft)
    return {kind: sorted(names) for kind, names in found.items()}


def _look(found: Findings, name: str, case: dict[str, Any], draft: str) -> None:
    schema = case["schema"]
    if draft == "draft7" and isinstance(schema, dict):
        schema = {"$schema": DRAFT_7, **schema}
    try:
        grammar = json_schema(schema)
        matcher(grammar)
    except GrammarError:
        found["refused"].append(name)
        return
    for test in case["tests"]:
        spelled = itertools.islice(spellings(test["data"]), 100)
        if any(accepts(grammar, text) for text in spelled) != test["valid"]:
            kind = "rejected" if test["valid"] else "accepted"
            found[kind].append(f"{name}: {test['description']}")


def spellings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        members = [
            [f"{compact(key)}:{text}" for text in itertools.islice(spellings(part), 6)]
            for key, part in value.items()
        ]
        for order in itertools.permutations(members):
            for chosen in itertools.product(*order):
                yield f"{{{','.join(chosen)}}}"
    elif isinstance(value, list):
        parts = [list(itertools.islice(spellings(part), 6)) for part in value]
        for chosen in itertools.product(*parts):
            yield f"[{','.join(chosen)}]"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield compact(value)
        if float(value).is_integer():
            yield f"{int(value)}" if isinstance(value, float) else f"{value}.0"
    else:
        yield compact(value)


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_no_document_is_accepted_that_the_suite_calls_invalid(findings: Findings) -> None:
    assert findings["accepted"] == []


@pytest.mark.parametrize("kind", ["refused", "rejected"])
def test_what_is_not_supported_only_shrinks(findings: Findings, kind: str) -> None:
    """refused: schemas. rejected: documents that the suite calls valid."""
    known = json.loads(RATCHET.read_text())[kind]
    assert sorted(set(findings[kind]) - set(known)) == [], "these are new"
    assert sorted(set(known) - set(findings[kind])) == [], "these are supported: take them out"


@pytest.mark.parametrize(
    ("declared", "validator"),
    [
        ("http://json-schema.org/draft-04/schema#", jsonschema.Draft4Validator),
        ("http://json-schema.org/draft-06/schema#", jsonschema.Draft6Validator),
        ("https://json-schema.org/draft/2019-09/schema", jsonschema.Draft201909Validator),
    ],
)
def test_no_document_is_accepted_that_is_invalid_by_another_draft(
    suites: Path, declared: str, validator: Any
) -> None:
    """The suite's copy here has drafts 7 and 2020-12. Its schemas are read by the others, too, and
    `jsonschema` judges the documents."""
    wrong: list[str] = []
    looked = 0
    for file in sorted((suites / "json-schema" / "draft7").glob("*.json")):
        for case in json.loads(file.read_text()):
            if not isinstance(case["schema"], dict):
                continue
            schema = {**case["schema"], "$schema": declared}
            try:
                validator.check_schema(schema)
                grammar = json_schema(schema)
                matcher(grammar)
                validator(schema).is_valid(case["tests"][0]["data"])
            except (GrammarError, jsonschema.SchemaError, referencing.exceptions.Unresolvable):
                continue
            for test in case["tests"]:
                looked += 1
                for text in itertools.islice(spellings(test["data"]), 100):
                    if accepts(grammar, text) and not validator(schema).is_valid(json.loads(text)):
                        wrong.append(f"{file.stem}: {case['description']}: {text}")
    assert looked > 300
    assert wrong == []
