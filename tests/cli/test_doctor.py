"""`headrace doctor`: what it finds, and what it says to do."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from headrace.cli import doctor
from headrace.cli.doctor import Finding, examine
from headrace.ops import cpu, pace
from headrace.ops.cpu import MachineSpeed
from headrace.ops.pace import Pace
from headrace.settings import Settings
from headrace.store.database import Database
from headrace.store.url import database_url
from tests.models.indexes import tiny_gguf

from .conftest import Headrace
from .service import fake_service


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement that takes no time; `test_as_a_command` makes the real one."""
    speed = MachineSpeed("avx2", 1, 9e9, 4e12, 2e12, 3e9)
    monkeypatch.setattr(cpu, "measure_speed", lambda threads, isa, stream_bytes: speed)
    monkeypatch.setattr(
        pace, "measure_pace", lambda *_, **__: Pace(4e-3, 18_000_000, 512, 0.5, 10**12)
    )


def findings(home: Path, **flags: object) -> dict[str, Finding]:
    """The report for an installation in `home` and a free port, but for these flags."""
    usual = {"data_dir": home / "data", "models_dir": home / "models", "port": 0}
    report = list(examine(Settings(**(usual | flags))))
    assert len({finding.check for finding in report}) == len(report)
    for finding in report:
        assert (finding.advice is None) == (finding.status == "ok"), finding
    return {finding.check: finding for finding in report}


def test_a_fresh_machine_is_fit_and_stays_untouched(home: Path) -> None:
    report = findings(home)
    assert report["model"].status == "warn"
    assert "headrace models pull smollm2-135m" in str(report["model"].advice)
    assert not [f for f in report.values() if f.status == "fail"]
    assert "9.0 GB/s" in report["speed"].detail
    assert "3.0 G of float32" in report["speed"].detail
    assert "4.00 ms for a token of a stack" in report["decode"].detail
    assert "50% of memory's speed" in report["decode"].detail
    assert "50% of the int8 rate" in report["prefill"].detail
    assert report["decode"].figures == {"seconds": 4e-3, "floor_seconds": 2e-3}
    assert "is used" in report["instruction sets"].detail
    assert list(home.iterdir()) == []


def test_an_installed_model_is_opened(home: Path, smollm2_path: Path) -> None:
    from headrace.models.catalogue import Catalogue

    Catalogue(home / "models").pull(str(smollm2_path))
    report = findings(home, model=str(smollm2_path))
    assert report["model"].status == "ok"
    assert "llama" in report["model"].detail
    assert "a token of a stack" not in report["decode"].detail


def test_a_quantised_model_is_not_quantised_again(home: Path, smollm2_path: Path) -> None:
    from headrace.models.catalogue import Catalogue

    Catalogue(home / "models").pull(str(smollm2_path))
    model = findings(home, model=str(smollm2_path), quantization="w4")["model"]
    assert model.status == "fail"
    assert "'token_embd.weight' is Q8_0, so it is quantised already" in model.detail
    assert model.advice is not None
    assert "unset --quantization" in model.advice


def test_a_model_that_cannot_be_served_fails(home: Path, tmp_path: Path) -> None:
    from headrace.models.catalogue import Catalogue

    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf())
    Catalogue(home / "models").pull(str(path))
    report = findings(home, model=str(path))
    assert report["model"].status == "fail"
    assert "tiny.gguf" in report["model"].detail
    assert findings(home, model="smolm2-135m")["model"].status == "fail"


def test_a_draft_model_is_looked_at_too(home: Path, tmp_path: Path) -> None:
    from headrace.models.catalogue import Catalogue

    assert "draft model" not in findings(home)
    missing = findings(home, speculate="draft", draft_model="qwen2.5-coder-0.5b")["draft model"]
    assert missing.status == "warn"
    assert "headrace models pull qwen2.5-coder-0.5b" in str(missing.advice)
    path = tmp_path / "draft.gguf"
    path.write_bytes(tiny_gguf())
    Catalogue(home / "models").pull(str(path))
    report = findings(home, speculate="draft", draft_model=str(path))
    assert report["draft model"].status == "fail"
    assert "draft.gguf" in report["draft model"].detail


def test_a_model_that_changed_is_told(home: Path, tmp_path: Path) -> None:
    from headrace.models.catalogue import Catalogue

    path = tmp_path / "changing.gguf"
    path.write_bytes(tiny_gguf())
    Catalogue(home / "models").pull(str(path))
    path.write_bytes(tiny_gguf(payload=10))
    model = findings(home, model=str(path))["model"]
    assert model.status == "warn"
    assert "is not the file that was installed" in model.detail


def test_too_little_memory_and_too_many_threads_warn(home: Path) -> None:
    report = findings(home, kv_memory="900TiB", threads=1000)
    assert report["memory"].status == "warn"
    assert report["cores"].status == "warn"


def test_a_budget_below_what_the_model_needs_fails(home: Path, smollm2_path: Path) -> None:
    from headrace.models.catalogue import Catalogue

    Catalogue(home / "models").pull(str(smollm2_path))
    memory = findings(home, model=str(smollm2_path), memory="200MiB")["memory"]
    assert memory.status == "fail"
    assert "memory is 200 MiB, but" in memory.detail
    settings = {"memory": "500MiB", "kv_cache": "int8"}
    memory = findings(home, model=str(smollm2_path), **settings)["memory"]
    assert "MiB by the engine, whose KV cache has int8 keys" in memory.detail


def test_too_little_disk_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = doctor.shutil.disk_usage(home)._replace(free=1000)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    report = findings(home)
    assert report["disk for data"].status == report["disk for the model"].status == "fail"


def test_a_folder_that_cannot_be_written_fails(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    report = findings(home, models_dir=file)
    assert report["models directory"].status == "fail"
    assert "--models-dir" in str(report["models directory"].advice)


def test_the_database_is_looked_at_and_not_migrated(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "headrace.db"
    sqlite3.connect(path).execute("CREATE TABLE x (y)").connection.close()
    url = f"sqlite:///{path}"
    assert findings(home, database_url=url)["database"].status == "warn"
    Database.open(database_url(url, tmp_path)).close()
    assert findings(home, database_url=url)["database"].status == "ok"
    path.write_text("not a database, however long this text may be made")
    assert findings(home, database_url=url)["database"].status == "fail"


def test_a_database_that_is_down_fails_without_its_password(home: Path) -> None:
    url = "postgresql://anna:sekrit@127.0.0.1:1/headrace"
    found = findings(home, database_url=url)["database"]
    assert found.status == "fail"
    assert "sekrit" not in f"{found}"
    assert findings(home, database_url="oracle://x")["database"].status == "fail"


def test_a_port_that_a_headrace_has_is_not_a_fault(home: Path) -> None:
    with fake_service() as service:
        assert findings(home, port=service.port)["port"].status == "ok"
        service.readiness = {"status": "unavailable", "reason": "loading"}
        port = findings(home, port=service.port)["port"]
        assert (port.status, "loading" in port.detail) == ("warn", True)


def test_a_port_that_something_else_has_is_a_fault(home: Path) -> None:
    with fake_service() as other:
        other.name = "another"
        assert findings(home, port=other.port)["port"].status == "fail"
    assert findings(home, port=other.port)["port"].status == "ok"


def test_as_a_command(headrace: Headrace) -> None:
    fit = headrace("doctor", "--port", "0", "--json")
    assert fit.returncode == 0, fit.stdout
    report = {row["check"]: row for row in json.loads(fit.stdout)}
    assert {row["status"] for row in report.values()} <= {"ok", "warn"}
    assert "GB/s read from memory" in report["speed"]["detail"]
    for step in ("decode", "prefill"):
        assert 0 < report[step]["figures"]["floor_seconds"] < 60
        assert 0 < report[step]["figures"]["seconds"] < 60
    unfit = headrace("doctor", "--port", "0", "--model", "nope")
    assert unfit.returncode == 1
    assert "fail  model: no model is called 'nope'" in unfit.stdout
