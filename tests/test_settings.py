"""Settings: who wins, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.hints import did_you_mean
from headrace.settings import Settings, SettingsError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, and no variables but those a test sets."""
    import os

    for variable in os.environ:
        if variable.startswith(("HEADRACE_", "XDG_")):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (Settings().port, Settings().origin("port")) == (8080, "default")
    (clean / "headrace.toml").write_text("port = 1001\nhost = '::1'\n")
    assert (Settings().port, Settings().origin("port")) == (1001, "headrace.toml")
    monkeypatch.setenv("HEADRACE_PORT", "1002")
    assert (Settings().port, Settings().origin("port")) == (1002, "HEADRACE_PORT")
    settings = Settings(port="1003")
    assert (settings.port, settings.origin("port")) == (1003, "flag --port")
    assert (settings.host, settings.origin("host")) == ("::1", "headrace.toml")


def test_the_file_may_be_named_by_flag_or_variable_and_must_then_exist(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clean / "one.toml", clean / "two.toml"
    one.write_text("port = 1")
    two.write_text("port = 2")
    monkeypatch.setenv("HEADRACE_CONFIG", str(one))
    assert Settings().port == 1
    settings = Settings(config=str(two))
    assert (settings.port, settings.origin("port")) == (2, str(two))
    with pytest.raises(SettingsError, match=r"gone\.toml: no such file"):
        Settings(config="gone.toml")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("prot = 1", "unknown setting 'prot'; did you mean 'port'?"),
        ("config = 'x'", "unknown setting 'config'"),
        ("port = ", "Invalid value"),
        ("[server]\nport = 1", "unknown setting 'server'"),
        ("port = 70000", "port (from headrace.toml): input should be less than or equal to 65535"),
        ("port = 'http'", "port (from headrace.toml): input should be a valid integer"),
        ("threads = 0", "threads (from headrace.toml): input should be greater than"),
        ("kv_memory = '4 bananas'", "kv_memory (from headrace.toml): could not interpret"),
        ("memory = '1KiB'", "memory (from headrace.toml): input should be greater than"),
        ("kv_memory = '1KiB'", "kv_memory (from headrace.toml): input should be greater than"),
        (
            "isa = 'sse9'",
            "isa (from headrace.toml): input should be 'avx512', 'avx2', 'neon' or 'scalar'",
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_named(clean: Path, text: str, fault: str) -> None:
    (clean / "headrace.toml").write_text(text)
    with pytest.raises(SettingsError) as error:
        Settings()
    assert fault in str(error.value)
    assert "headrace.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_step_too_small_for_all_sequences_is_refused_whoever_asked_for_which(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Settings(max_sequences=512, max_step_tokens=512).max_step_tokens == 512
    (clean / "headrace.toml").write_text("max_sequences = 33")
    monkeypatch.setenv("HEADRACE_MAX_STEP_TOKENS", "32")
    with pytest.raises(SettingsError) as error:
        Settings()
    assert str(error.value).startswith("max_step_tokens (32) must be at least max_sequences (33)")


def test_a_draft_model_goes_with_drafts_alone() -> None:
    assert Settings().speculate == "off"
    assert Settings(speculate="ngram", speculate_tokens="4").speculate_tokens == 4
    assert Settings(speculate="draft", draft_model="small").draft_model == "small"
    with pytest.raises(SettingsError, match="needs a draft_model"):
        Settings(speculate="draft")
    with pytest.raises(SettingsError, match="draft_model is set, but speculate is ngram"):
        Settings(speculate="ngram", draft_model="small")
    with pytest.raises(SettingsError, match="speculate_tokens"):
        Settings(speculate="ngram", speculate_tokens=0)


def test_targets_exclude_each_other() -> None:
    assert Settings(target_itl="80").target_itl == 80
    with pytest.raises(SettingsError, match="exclude each other"):
        Settings(target_itl=80, target_throughput=400)
    with pytest.raises(SettingsError, match="target_itl"):
        Settings(target_itl=0)


@pytest.mark.parametrize(("text", "on"), [("true", True), ("off", False), ("0", False)])
def test_switches_in_words(text: str, on: bool) -> None:
    assert Settings(prefix_cache=text).prefix_cache is on


def test_a_file_that_is_not_text_is_refused(clean: Path) -> None:
    (clean / "headrace.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"headrace\.toml"):
        Settings()


def test_an_unknown_variable_is_refused_with_the_nearest_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_DATADIR", "/x")
    with pytest.raises(SettingsError, match="HEADRACE_DATADIR; did you mean 'HEADRACE_DATA_DIR'"):
        Settings()


def test_variables_of_clients_and_tests_are_none_of_its_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HEADRACE_API_KEY", "HEADRACE_SUITES", "HEADRACE_TEST_SMOLLM2"):
        monkeypatch.setenv(name, "x")
    Settings()


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name != "models"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_value_is_refused_of_a_variable_a_flag_and_the_file(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variable = f"HEADRACE_{name.upper()}"
    with monkeypatch.context() as patched:
        patched.setenv(variable, value)
        with pytest.raises(SettingsError, match=f"{variable} is empty"):
            Settings()
    with pytest.raises(SettingsError, match=f"--{name.replace('_', '-')} is empty"):
        Settings(**{name: value})
    if name != "config":
        Path("headrace.toml").write_text(f'{name} = "{value}"')
        with pytest.raises(SettingsError, match=f"headrace.toml: {name} is empty"):
            Settings()


def test_an_empty_value_in_a_table_of_the_file_is_refused() -> None:
    Path("headrace.toml").write_text('[models.a]\ntool_format = ""')
    with pytest.raises(SettingsError, match="models is empty"):
        Settings()


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(SettingsError, match="unknown setting 'prot'; did you mean 'port'"):
        Settings(prot=1)


@pytest.mark.parametrize("text", ["1GiB", "1 GiB", "1024MiB", "1073741824"])
def test_sizes_in_words(text: str) -> None:
    assert Settings(kv_memory=text).kv_memory == 1 << 30


@pytest.mark.parametrize("key", ["hr-a_b", "hr-Ab-9_s_e_cret", "hr-x_~ß"])
def test_bootstrap_keys_of_the_right_form(key: str) -> None:
    settings = Settings(bootstrap_key=key)
    assert settings.bootstrap_key is not None
    assert settings.bootstrap_key.get_secret_value() == key


@pytest.mark.parametrize("key", ["sekrit", "hr-sekrit", "hr-_sekrit", "hr-sekrit_", "xx-a_sekrit"])
def test_a_bootstrap_key_of_the_wrong_form_is_refused_and_not_quoted(key: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings(bootstrap_key=key)
    assert "hr-<id>_<secret>" in str(error.value)
    assert "sekrit" not in str(error.value)


def test_secrets_do_not_show_in_a_representation() -> None:
    assert "sekrit" not in repr(Settings(bootstrap_key="hr-a_sekrit"))


def test_directories_follow_the_platform(monkeypatch: pytest.MonkeyPatch, clean: Path) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    assert Settings().data_dir == Path("/home/anna/.local/share/headrace")
    assert Settings().models_dir == Path("/home/anna/.cache/headrace/models")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, so ignored")
    assert Settings().data_dir == Path("/data/headrace")
    assert Settings().models_dir == Path("/home/anna/.cache/headrace/models")
    assert Settings(data_dir="~/d").data_dir == Path("/home/anna/d")
    assert Settings(data_dir="d").data_dir == clean / "d"


@given(st.sampled_from(sorted(Settings.model_fields)), st.data())
def test_the_nearest_word_is_found_after_a_slip(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    slipped = name[:at] + name[at + 1 :]
    assert did_you_mean(slipped, [name]) == f"; did you mean {name!r}?"


def test_classes_are_a_table_or_json(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clean / "headrace.toml").write_text("[classes.interactive]\ndeadline = 5\nfloor = 0.5\n")
    assert Settings().classes["interactive"].deadline == 5
    assert Settings().classes["interactive"].share is None
    monkeypatch.setenv("HEADRACE_CLASSES", '{"batch": {"share": 2}}')
    assert Settings().classes["batch"].share == 2
    assert Settings(classes='{"default": {"age": 3}}').classes["default"].age == 3


@pytest.mark.parametrize(
    "text", ["{", '{"express": {}}', '{"batch": {"shares": 2}}', '{"batch": {"floor": 0.6}}']
)
def test_classes_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="classes"):
        Settings(classes=text)


def test_models_are_a_list_a_flag_given_again_or_names_apart_by_commas(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Settings().served == ("smollm2-135m",)
    (clean / "headrace.toml").write_text("model = ['a', 'b']\n[models.c]\n[models.a]\n")
    assert Settings().served == ("a", "b", "c")
    monkeypatch.setenv("HEADRACE_MODEL", "x, y")
    assert Settings().served == ("x", "y", "c", "a")
    assert Settings(model=["p", "q,r", "p"]).model == ("p", "q", "r")
    source = "pypi:one==1,two==1"
    assert Settings(model=[source, "z"]).model == (source, "z")


def test_a_table_says_what_differs_for_one_model(clean: Path) -> None:
    (clean / "headrace.toml").write_text(
        "max_sequences = 8\ntarget_itl = 50\nspeculate = 'draft'\ndraft_model = 'd'\n"
        "[models.b]\nload = 'demand'\nidle_unload = 60\ntier = 'large'\nkv_memory = '64MiB'\n"
        "speculate = 'ngram'\ntarget_throughput = 400\n"
    )
    settings = Settings()
    one, other = settings.of_model("a"), settings.of_model("b")
    assert (one.load, one.idle_unload, one.tier, one.kv_memory) == ("start", None, None, None)
    assert (one.speculate, one.draft_model, one.target_itl) == ("draft", "d", 50)
    assert (other.load, other.idle_unload, other.tier) == ("demand", 60, "large")
    assert other.kv_memory == 64 << 20
    assert other.max_sequences == one.max_sequences == 8
    assert (other.speculate, other.draft_model) == ("ngram", None)
    assert (other.target_itl, other.target_throughput) == (None, 400)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("load = 'never'", "models.a.load: input should be 'start' or 'demand'"),
        ("tier = 'huge'", "models.a.tier: input should be 'small', 'medium' or 'large'"),
        ("idle_unload = 0", "models.a.idle_unload: input should be greater than 0"),
        ("max_sequence = 3", "models.a.max_sequence: unknown setting; did you mean"),
        ("port = 3", "models.a.port: unknown setting"),
        ("max_step_tokens = 3", "max_step_tokens (3) must be at least max_sequences (64)"),
        ("speculate = 'draft'", "speculate is draft, which needs a draft_model"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(clean: Path, table: str, fault: str) -> None:
    (clean / "headrace.toml").write_text(f"[models.a]\n{table}\n")
    with pytest.raises(SettingsError) as error:
        Settings()
    assert str(error.value).startswith("headrace.toml: models.a")
    assert fault in str(error.value)


def test_tables_of_models_are_for_the_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_MODELS", "{}")
    with pytest.raises(SettingsError, match="unknown environment variable HEADRACE_MODELS"):
        Settings()
