"""The commands that say who may use what: tenants, keys, aliases, pins, prices, and the log."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import main as cli

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What `headrace … --json` prints, run in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("HEADRACE_DATABASE_URL", raising=False)

    def call(*arguments: str, as_json: bool = True) -> Any:
        flags = ["--json"] if as_json else []
        monkeypatch.setattr(sys, "argv", ["headrace", *arguments, *flags])
        try:
            cli.main()
        except SystemExit as end:
            assert not end.code, capsys.readouterr().err
        printed = capsys.readouterr().out
        return json.loads(printed) if as_json else printed

    return call


@pytest.fixture
def fault(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """The one line that a command says which cannot do what it is told."""

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["headrace", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line.removeprefix("headrace: ")

    return call


EVERY_LIMIT = (
    *("--requests-per-minute", "60", "--input-tokens-per-minute", "90000"),
    *("--output-tokens-per-minute", "30000", "--concurrent-requests", "8"),
    *("--budget", "5.00", "--budget-period", "day"),
    *("--long-requests-per-minute", "2", "--long-input-tokens-per-minute", "100000"),
    *("--long-concurrent-requests", "1"),
)
LIMITS = {
    "requests_per_minute": 60,
    "input_tokens_per_minute": 90000,
    "output_tokens_per_minute": 30000,
    "concurrent_requests": 8,
    "budget": "5.00",
    "budget_period": "day",
    "long_requests_per_minute": 2,
    "long_input_tokens_per_minute": 100000,
    "long_concurrent_requests": 1,
}


def test_a_tenant_is_made_shown_and_listed(run: Run) -> None:
    terms = ["--class", "interactive", "--weight", "3", "--models", "b,a"]
    made = run("tenants", "create", "acme", *terms, *EVERY_LIMIT)
    assert made["limits"] == LIMITS
    assert (made["class"], made["weight"], made["models"]) == ("interactive", 3, ["a", "b"])
    assert made["enabled"] is True
    assert run("tenants", "show", "acme") == made
    usual = run("tenants", "create", "globex")
    assert (usual["class"], usual["weight"], usual["models"]) == ("default", 1, "all")
    assert usual["limits"] == {}
    assert run("tenants", "list") == [made, usual]


def test_an_update_changes_what_is_given_and_removes_what_is_none(run: Run) -> None:
    made = run("tenants", "create", "acme", "--weight", "3", "--models", "a", *EVERY_LIMIT)
    kept = {"requests_per_minute": 10, "concurrent_requests": 8}
    removed = [
        word
        for name in LIMITS
        if name not in kept and name != "budget_period"
        for word in (f"--{name.replace('_', '-')}", "none")
    ]
    period = ["--budget-period", "month"]
    updated = run("tenants", "update", "acme", "--requests-per-minute", "10", *removed, *period)
    assert updated == made | {"limits": kept}
    everything = run("tenants", "update", "acme", "--models", "all", "--class", "batch")
    assert everything == made | {"limits": kept, "models": "all", "class": "batch"}


def test_a_tenant_is_disabled_and_enabled(run: Run) -> None:
    made = run("tenants", "create", "acme")
    assert run("tenants", "disable", "acme") == made | {"enabled": False}
    assert run("tenants", "enable", "acme") == made


def test_a_key_has_limits_of_its_own(run: Run) -> None:
    run("tenants", "create", "acme")
    made = run("keys", "create", "--tenant", "acme", *EVERY_LIMIT)
    (listed,) = run("keys", "list")
    assert made["limits"] == listed["limits"] == LIMITS
    fewer = run("keys", "update", made["id"], "--requests-per-minute", "10", "--budget", "none")
    kept = {name: v for name, v in LIMITS.items() if name != "budget"}
    assert fewer["limits"] == kept | {"requests_per_minute": 10}


def test_a_key_is_rotated_and_two_secrets_live(run: Run) -> None:
    run("tenants", "create", "acme")
    made = run("keys", "create", "--tenant", "acme")
    rotated = run("keys", "rotate", made["id"], "--grace", "1h")
    assert rotated["key"].startswith(f"hr-{made['id']}_")
    assert rotated["key"] != made["key"]
    assert rotated["old_ends"] > "2020"
    run("keys", "rotate", made["id"])
    (listed,) = run("keys", "list")
    assert (listed["state"], listed["live_secrets"]) == ("valid", 2)
    run("keys", "rotate", made["id"], "--grace", "0s")
    assert run("keys", "list")[0]["live_secrets"] == 1
    assert run("keys", "revoke", made["id"])["live_secrets"] == 0


def test_aliases_are_set_listed_and_removed(run: Run) -> None:
    run("tenants", "create", "acme")
    everybodys = run("aliases", "set", "chat", "smollm2-135m")
    own = run("aliases", "set", "chat", "b@1", "--tenant", "acme", "--force")
    assert (everybodys["tenant"], own["tenant"]) == (None, "acme")
    there, dangling = run("aliases", "list")
    assert there == everybodys | {"exists": True}
    assert dangling == own | {"exists": False}
    assert run("aliases", "list", "--tenant", "acme") == [dangling]
    assert run("tenants", "show", "acme")["aliases"] == {"chat": "b@1"}
    assert run("aliases", "remove", "chat", "--tenant", "acme") == own
    assert run("aliases", "list") == [there]


def test_pins_are_set_listed_and_removed(run: Run) -> None:
    run("tenants", "create", "acme")
    run("pins", "set", "--tenant", "acme", "a", "v1", "--force")
    pin = run("pins", "set", "--tenant", "acme", "a", "v2", "--force")
    assert pin == {"tenant": "acme", "model": "a", "version": "v2"}
    assert run("pins", "list") == [pin | {"exists": False}]
    assert run("tenants", "show", "acme")["pins"] == {"a": "v2"}
    assert run("pins", "remove", "--tenant", "acme", "a") == pin
    assert run("pins", "list") == []


def test_prices_are_exact_and_follow_one_another(run: Run) -> None:
    first = run("prices", "set", "a", "--input", "0.15", "--output", "0.60", "--force")
    assert (first["input"], first["cached_input"], first["output"]) == ("0.15", "0.15", "0.60")
    assert first["long_from"] is first["long_input"] is None
    second = run(
        *("prices", "set", "a", "--input", "1", "--cached-input", "0.125", "--output", "2"),
        "--force",
        *("--long-from", "32000", "--long-input", "1.5"),
    )
    assert (second["version"], second["cached_input"]) == (2, "0.125")
    assert (second["long_input"], second["long_cached_input"]) == ("1.50", "1.50")
    assert (second["long_from"], second["long_output"]) == (32000, "2.00")
    later = run("prices", "set", "a", "--input", "9", "--output", "9", "--from", "7d", "--force")
    other = run("prices", "set", "b", "--input", "0", "--output", "0", "--force")
    unknown = {"exists": False}
    assert run("prices", "list") == [second | unknown, other | unknown]
    assert run("prices", "list", "--model", "b") == [other | unknown]
    assert run("prices", "list", "--all", "--model", "a") == [
        price | unknown for price in (first, second, later)
    ]


def test_the_log_tells_who_changed_what(run: Run) -> None:
    run("tenants", "create", "acme", "--weight", "2")
    run("tenants", "update", "acme", "--weight", "3", "--requests-per-minute", "5")
    key = run("keys", "create", "--tenant", "acme")
    newest, changed, _ = entries = run("audit", "list")
    assert [entry["action"] for entry in entries] == [
        "key.create",
        "tenant.update",
        "tenant.create",
    ]
    assert (changed["subject"], changed["before"]["weight"]) == ("acme", 2)
    assert changed["after"]["limits"] == {"requests_per_minute": 5}
    assert newest["actor"].startswith("user:")
    assert key["key"] not in str(entries)
    assert run("audit", "list", "--subject", "acme", "--limit", "1") == [changed]
    assert run("audit", "list", "--since", "1h") == entries
    assert run("audit", "list", "--since", "0s") == []
    assert "weight: 2 -> 3" in run("audit", "list", as_json=False)


def test_tables_are_for_people(run: Run) -> None:
    run("tenants", "create", "acme", "--budget", "5", "--models", "a,b")
    head, line = run("tenants", "list", as_json=False).splitlines()
    assert head.split() == ["NAME", "CLASS", "WEIGHT", "ENABLED", "MODELS", "LIMITS", "CREATED"]
    assert "budget=5.00, budget_period=month" in line
    assert "a, b" in line


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("tenants create acme", "there is a tenant 'acme' already"),
        ("tenants show nobody", "there is no tenant 'nobody'"),
        ("tenants disable nobody", "there is no tenant 'nobody'"),
        ("tenants update acme", "nothing to change was given"),
        ("tenants update acme --weight 0", "a weight is a whole number from 1 to 1000"),
        ("tenants update acme --models a@1", "a model's name is"),
        ("tenants update acme --requests-per-minute 0", "requests_per_minute: expected int >= 1"),
        ("tenants update acme --requests-per-minute -1", "'-1' is neither a whole number nor none"),
        ("tenants update acme --requests-per-minute 1.5", "'1.5' is neither"),
        ("tenants update acme --budget 5,00", "--budget: '5,00' is not an amount"),
        ("tenants update acme --budget 1e3", "--budget: '1e3' is not an amount"),
        ("tenants update acme --budget 10000000", "--budget: 10000000 is more than 9007199.25"),
        ("tenants update acme --budget-period week", "budget_period: invalid enum value 'week'"),
        ("keys create --tenant acme --concurrent-requests x", "--concurrent-requests: 'x'"),
        ("keys create --tenant acne", "there is no tenant 'acne'; did you mean 'acme'?"),
        ("keys create --tenant zzz", "there is no tenant 'zzz'"),
        ("keys rotate nope", "there is no key nope"),
        ("keys rotate nope --grace soon", "--grace: 'soon' is no span"),
        ("aliases set chat chat", "cannot stand for itself"),
        ("aliases set chat smollm2-135", "no model or alias 'smollm2-135'; did you mean"),
        ("aliases set chat smollm2-135m@v9", "there is no version 'v9' of smollm2-135m"),
        ("pins set --tenant acme smollm2-135m v9", "there is no version 'v9' of smollm2-135m"),
        ("pins set --tenant acme nope v9", "there is no model 'nope'"),
        ("prices set nope --input 1 --output 1", "there is no model 'nope'"),
        ("tenants create (others)", "a tenant's name is 1 to 200 letters"),
        ("tenants create ../../x", "a tenant's name is 1 to 200 letters"),
        ("tenants update acme --models a,,b", "has an empty name"),
        ("aliases set chat a --tenant nobody", "there is no tenant 'nobody'"),
        ("aliases remove chat", "there is no alias 'chat' of everybody"),
        ("pins remove --tenant acme a", "acme has no pin for 'a'"),
        ("prices set a --input 0.15 --output 0.0001", "--output: 0.0001: a price a million"),
        ("prices set a --input x --output 1", "--input: 'x' is not an amount"),
        ("prices set a --input 1 --output 1 --long-from 9", "--long-from goes with"),
        ("prices set a --input 1 --output 1 --long-input 9", "--long-from goes with"),
        ("prices set gemma3-270m --input 1 --output 1 --from 2001-01-01", "in the past"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    run: Run, fault: Callable[..., str], arguments: str, complaint: str
) -> None:
    run("tenants", "create", "acme")
    assert complaint in fault(*arguments.split())
    assert len(run("audit", "list")) == 1
