import subprocess
import sys

import pytest
from pydantic import ValidationError

from queue_config.folders import config_file, state_home
from queue_config.settings import Settings, explain, provenance

PLAIN = ("EMBEDDING_MODEL", "DOMAIN", "REDIS_URL")
"""The names that are read without the prefix, too."""


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in (*PLAIN, *Settings.model_fields):
        monkeypatch.delenv(f"EVERINDEX_{name.upper()}", raising=False)
    monkeypatch.delenv("EMBEDDING_BACKEND", raising=False)


def toml(text):
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text, encoding="utf-8")


def origin(settings, name, **given):
    return provenance(settings, given)[name][1]


def explained(**given):
    with pytest.raises(ValidationError) as caught:
        Settings(**given)
    return explain(caught.value)


# Precedence


def test_without_any_source_a_setting_has_its_default():
    assert Settings().port == 8741
    assert origin(Settings(), "port") == "default"


def test_the_toml_file_overrides_the_default():
    toml("port = 1111")
    assert Settings().port == 1111
    assert origin(Settings(), "port") == str(config_file())


def test_the_environment_overrides_the_toml_file(monkeypatch):
    toml("port = 1111")
    monkeypatch.setenv("EVERINDEX_PORT", "2222")
    assert Settings().port == 2222
    assert origin(Settings(), "port") == "environment"


def test_an_argument_overrides_everything(monkeypatch):
    toml("port = 1111")
    monkeypatch.setenv("EVERINDEX_PORT", "2222")
    assert Settings(port=3333).port == 3333
    assert origin(Settings(port=3333), "port", port=3333) == "argument"


@pytest.mark.parametrize("name", PLAIN)
def test_a_setting_with_a_plain_name_has_the_same_precedence_and_its_prefixed_name_wins(monkeypatch, name):
    field = name.lower()

    def value(**given):
        found = getattr(Settings(**given), field)
        return found.get_secret_value() if field == "redis_url" else found

    def came_from(**given):
        return origin(Settings(**given), field, **given)

    toml(f'{field} = "from-toml"')
    assert (value(), came_from()) == ("from-toml", str(config_file()))
    monkeypatch.setenv(name, "from-plain")
    assert (value(), came_from()) == ("from-plain", "environment")
    monkeypatch.setenv(f"EVERINDEX_{name}", "from-prefixed")
    assert (value(), came_from()) == ("from-prefixed", "environment")
    given = {field: "from-argument"}
    assert (value(**given), came_from(**given)) == ("from-argument", "argument")


def test_the_model_computes_with_torch_unless_openvino_is_asked_for(monkeypatch):
    assert Settings().embedding_backend == "torch"
    toml('embedding_backend = "openvino"')
    assert Settings().embedding_backend == "openvino"
    monkeypatch.setenv("EMBEDDING_BACKEND", "torch")
    assert Settings().embedding_backend == "torch"
    monkeypatch.setenv("EVERINDEX_EMBEDDING_BACKEND", "openvino")
    assert Settings().embedding_backend == "openvino"


def test_other_settings_are_not_read_from_plain_names(monkeypatch):
    monkeypatch.setenv("PORT", "9")
    monkeypatch.setenv("VAULT", "/elsewhere")
    assert (Settings().port, Settings().vault) == (8741, None)


def test_sources_are_merged_setting_by_setting(monkeypatch):
    toml('port = 1111\ndomain = "garden"')
    monkeypatch.setenv("EVERINDEX_SETTLE_SECONDS", "1.5")
    found = Settings(port=3333)
    assert (found.port, found.domain, found.settle_seconds) == (3333, "garden", 1.5)


def test_configuration_and_state_lie_in_the_xdg_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert config_file() == tmp_path / "c" / "everindex" / "config.toml"
    assert state_home() == tmp_path / "s" / "everindex"


# What is shown


def test_provenance_names_every_setting():
    assert list(provenance(Settings(), {})) == list(Settings.model_fields)


def test_a_secret_is_only_ever_shown_as_set_or_not_set(monkeypatch):
    assert provenance(Settings(), {})["redis_url"] == ("not set", "default")
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@host")
    settings = Settings()
    assert provenance(settings, {})["redis_url"] == ("set", "environment")
    shown = f"{provenance(settings, {})} {settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert "hunter2" not in shown


def test_every_setting_says_what_it_is_for():
    undocumented = [name for name, field in Settings.model_fields.items() if not field.description]
    assert undocumented == []


# Values that cannot be used


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("port = 70000", "port: Input should be less than or equal to 65535 (got 70000)"),
        (
            'port = "x"',
            "port: Input should be a valid integer, unable to parse string as an integer (got 'x')",
        ),
        ("prot = 1", "prot: Extra inputs are not permitted"),
        (
            'embedding_backend = "onnx"',
            "EVERINDEX_EMBEDDING_BACKEND: Input should be 'torch' or 'openvino' (got 'onnx')",
        ),
        ("max_note_mb = 0", "max_note_mb: Input should be greater than 0 (got 0)"),
        ("settle_seconds = -1", "settle_seconds: Input should be greater than or equal to 0 (got -1)"),
    ],
)
def test_a_bad_value_in_the_toml_file_is_explained_in_one_line(text, expected):
    toml(text)
    assert explained() == expected


def test_a_bad_value_in_the_environment_is_explained(monkeypatch):
    monkeypatch.setenv("EVERINDEX_CHUNK_TARGET_TOKENS", "3")
    assert explained() == "chunk_target_tokens: Input should be greater than or equal to 20 (got '3')"


def test_several_bad_values_are_all_explained():
    assert explained(port=-1, reconcile_seconds=0).count("; ") == 1


def test_an_unknown_argument_is_refused():
    assert explained(prot=1).startswith("prot: ")


def test_settings_cannot_be_changed_once_they_are_read():
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1


def test_the_largest_note_is_counted_in_bytes():
    assert Settings(max_note_mb=1.5).max_note_bytes == 1_500_000


@pytest.mark.parametrize("content", [b"port =", b"\xff\xfe"])
def test_a_config_file_that_is_not_toml_is_explained_without_a_traceback(vault, content):
    toml("")
    config_file().write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "config", "--vault", str(vault)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "config.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch):
    for name in ("EVERINDEX_VAULT", "EVERINDEX_STATE", "DOMAIN", "EMBEDDING_MODEL", "REDIS_URL"):
        monkeypatch.setenv(name, "")
    found = Settings()
    assert (found.vault, found.state, found.domain, found.embedding_model, found.redis_url) == (None,) * 5


def test_an_infinite_size_is_refused():
    toml("max_note_mb = inf")
    assert explained().startswith("max_note_mb: ")


def test_a_secret_under_a_mistyped_name_is_not_printed():
    toml('redis_ulr = "redis://:hunter2@host"')
    assert "hunter2" not in explained()
