import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from queue_config.folders import config_file, state_home
from queue_config.settings import (
    NOTES_A_DOLLAR,
    OLD_NAMES,
    RETIRED,
    Settings,
    explain,
    outdated,
    provenance,
    unknown_variables,
)

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

    def named(origin):
        return f"redis://from-{origin}" if field == "redis_url" else f"from-{origin}"

    toml(f'{field} = "{named("toml")}"')
    assert (value(), came_from()) == (named("toml"), str(config_file()))
    monkeypatch.setenv(name, named("plain"))
    assert (value(), came_from()) == (named("plain"), "environment")
    monkeypatch.setenv(f"EVERINDEX_{name}", named("prefixed"))
    assert (value(), came_from()) == (named("prefixed"), "environment")
    given = {field: named("argument")}
    assert (value(**given), came_from(**given)) == (named("argument"), "argument")


@pytest.mark.parametrize("part", ["target", "overlap"])
def test_a_setting_of_words_is_read_under_its_former_name_too_with_a_warning(monkeypatch, part):
    new, old = f"chunk_{part}_words", f"chunk_{part}_tokens"
    assert outdated() == []
    toml(f"{old} = 40")
    assert getattr(Settings(), new) == 40
    assert outdated() == [f"{old} is now called {new}; the old name works until the next minor version"]
    toml(f"{new} = 41")
    assert (getattr(Settings(), new), outdated()) == (41, [])
    monkeypatch.setenv(f"EVERINDEX_{old.upper()}", "42")
    assert getattr(Settings(), new) == 42
    assert origin(Settings(), new) == "environment"
    assert [line.split()[0] for line in outdated()] == [f"EVERINDEX_{old.upper()}"]
    monkeypatch.setenv(f"EVERINDEX_{new.upper()}", "43")
    assert getattr(Settings(), new) == 43
    assert getattr(Settings(**{new: 44}), new) == 44
    assert getattr(Settings(**{old: 45}), new) == 45


USED = {
    "embedding_usd_a_day": 2.0,
    "tag_usd_a_day": 3.0,
    "tag_notes_a_day": 50,
    "embedding_context": "title",
    "settle_seconds": 1.5,
    "reconcile_seconds": 60.0,
    "history_rows": 500,
}


@pytest.mark.parametrize("name", RETIRED)
def test_what_is_no_longer_a_setting_works_with_a_warning_that_says_what_to_do(monkeypatch, name):
    toml(f"{name} = {json.dumps(USED[name])}")
    assert getattr(Settings(), name) == USED[name]
    advice = f"is no longer a setting and works until the next minor version: {RETIRED[name]}"
    assert outdated() == [f"{name} {advice}"]
    assert provenance(Settings(), {})[name] == (str(USED[name]), str(config_file()))
    toml("")
    monkeypatch.setenv(f"EVERINDEX_{name.upper()}", str(USED[name]))
    assert getattr(Settings(), name) == USED[name]
    assert outdated() == [f"EVERINDEX_{name.upper()} {advice}"]


def test_one_setting_limits_what_a_day_costs():
    found = Settings(usd_a_day=0.5)
    assert (found.endpoints_usd_a_day, found.claude_usd_a_day) == (0.5, 0.5)
    assert found.claude_notes_a_day == NOTES_A_DOLLAR / 2
    before = Settings()
    assert (before.endpoints_usd_a_day, before.claude_usd_a_day, before.claude_notes_a_day) == (1, 1, 200)


def test_the_limits_of_before_hold_until_they_are_removed():
    found = Settings(usd_a_day=9, embedding_usd_a_day=0, tag_usd_a_day=3, tag_notes_a_day=0)
    assert (found.endpoints_usd_a_day, found.claude_usd_a_day, found.claude_notes_a_day) == (0, 3, 0)


def test_a_command_warns_of_what_is_renamed_or_none_any_more_once(vault):
    environment = {**os.environ, "EVERINDEX_CHUNK_TARGET_TOKENS": "40", "EVERINDEX_SETTLE_SECONDS": "1"}
    command = [sys.executable, "-m", "service.cli", "config", "--vault", vault]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.count("is now called chunk_target_words") == 1
    assert done.stderr.count("EVERINDEX_SETTLE_SECONDS is no longer a setting") == 1


@pytest.mark.parametrize("typed", ["setle_seconds", "chunk_target_token"])
def test_what_is_no_longer_a_setting_is_suggested_to_no_one(monkeypatch, typed):
    toml(f"{typed} = 1")
    assert all(f"did you mean {old}" not in explained() for old in (*RETIRED, *OLD_NAMES.values()))
    monkeypatch.setenv(f"EVERINDEX_{typed.upper()}", "1")
    (said,) = (one for one in unknown_variables() if typed.upper() in one)  # the tests have variables, too
    assert all(old.upper() not in said.partition("; ")[2] for old in (*RETIRED, *OLD_NAMES.values()))


def test_other_settings_are_not_read_from_plain_names(monkeypatch):
    monkeypatch.setenv("PORT", "9")
    monkeypatch.setenv("VAULT", "/elsewhere")
    assert (Settings().port, Settings().vault) == (8741, None)


def test_sources_are_merged_setting_by_setting(monkeypatch):
    toml('port = 1111\ndomain = "garden"')
    monkeypatch.setenv("EVERINDEX_HISTORY_DAYS", "1.5")
    found = Settings(port=3333)
    assert (found.port, found.domain, found.history_days) == (3333, "garden", 1.5)


def test_configuration_and_state_lie_in_the_xdg_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert config_file() == tmp_path / "c" / "everindex" / "config.toml"
    assert state_home() == tmp_path / "s" / "everindex"


# What is shown


def test_a_setting_that_is_on_or_off_is_shown_as_that():
    assert provenance(Settings(attention=True), {})["attention"][0] == "on"
    assert provenance(Settings(), {})["attention"][0] == "off"


def test_the_settings_that_a_person_may_want_are_shown_and_others_where_they_are_set():
    wanted = [name for name, field in Settings.model_fields.items() if field.examples]
    assert list(provenance(Settings(), {})) == wanted
    toml("chunk_target_words = 40")
    assert list(provenance(Settings(), {})) == [*wanted, "chunk_target_words"]
    assert list(provenance(Settings(domain="a"), {"domain": "a"})) == [
        *wanted,
        "domain",
        "chunk_target_words",
    ]


def test_a_secret_is_only_ever_shown_as_set_or_not_set(monkeypatch):
    assert provenance(Settings(), {})["redis_url"] == ("not set", "default")
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@host")
    settings = Settings()
    assert provenance(settings, {})["redis_url"] == ("set", "environment")
    shown = f"{provenance(settings, {})} {settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert "hunter2" not in shown


def test_a_setting_that_is_not_set_is_shown_as_what_holds_then():
    shown = {name: value for name, (value, _) in provenance(Settings(), {}).items()}
    assert "None" not in shown.values()
    assert all(shown.values())
    assert (shown["inbox"], shown["chat"]) == ("none, they cannot", "none, there are no conversations")


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
        (
            'embedding_context = "all"',
            "embedding_context: Input should be 'off', 'title' or 'breadcrumb' (got 'all')",
        ),
        ("max_note_mb = 0", "max_note_mb: Input should be greater than 0 (got 0)"),
        ("settle_seconds = -1", "settle_seconds: Input should be greater than or equal to 0 (got -1)"),
    ],
)
def test_a_bad_value_in_the_toml_file_is_explained_in_one_line(text, expected):
    toml(text)
    assert explained() == expected.replace(": ", f" in {config_file()}: ", 1)


def test_an_unknown_setting_in_the_toml_file_is_explained():
    toml("prot = 1")
    assert explained() == f"prot in {config_file()}: there is no such setting; did you mean port?"


def test_a_bad_value_in_the_environment_is_explained(monkeypatch):
    monkeypatch.setenv("EVERINDEX_CHUNK_TARGET_WORDS", "3")
    monkeypatch.setenv("EVERINDEX_PORT", "abc")
    words, port = sorted(explained().split("; "))
    assert words == (
        "EVERINDEX_CHUNK_TARGET_WORDS in the environment: Input should be greater than or equal to 20 (got '3')"
    )
    assert port.startswith("EVERINDEX_PORT in the environment: ")


def test_several_bad_values_are_all_explained():
    assert explained(port=-1, reconcile_seconds=0).count("; ") == 1


def test_an_unknown_argument_is_refused():
    assert explained(prot=1).startswith("prot in ")


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
    assert explained().startswith(f"max_note_mb in {config_file()}: ")


def test_a_secret_under_a_mistyped_name_is_not_printed():
    toml('redis_ulr = "redis://:hunter2@host"')
    assert "hunter2" not in explained()


SECRETS = ("redis_url", "store", "anthropic_api_key")
MAY_HOLD_ONE = (*SECRETS, "anthropic_base_url")
HIDDEN = "hunter2hunter2"


def unusable(secret):
    """Values of wrong types and forms that hold a secret."""
    return st.one_of(
        st.sampled_from(
            [
                secret,
                f"redis//{secret}",
                f"redis://:{secret}@h:port",
                f"redis://:x/{secret}@h:1",
                f"://{secret}",
            ]
        ),
        st.sampled_from([f"http://u:{secret}@host", f"ftp://{secret}", f"https://u:{secret}@host/"]),
        st.sampled_from([secret.encode(), 1, 1.5, True]),
        st.lists(st.just(secret), min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["a", secret]), st.just(secret), min_size=1, max_size=3),
        st.tuples(st.just(secret), st.dictionaries(st.just("a"), st.lists(st.just(secret)))),
    )


@pytest.mark.parametrize("name", MAY_HOLD_ONE)
@given(value=unusable(HIDDEN))
@settings(max_examples=100)
def test_no_error_repeats_what_a_setting_holds_that_may_be_a_secret(name, value):
    for key in (name, name.upper(), f"EVERINDEX_{name.upper()}"):
        try:
            Settings(**{key: value})
        except ValidationError as error:
            for said in (explain(error), str(error), repr(error)):
                assert HIDDEN not in said
                assert name in said.lower()


@pytest.mark.parametrize("name", SECRETS)
def test_every_setting_that_is_a_secret_is_known_to_be_one(name):
    assert [
        field
        for field in Settings.model_fields
        if "SecretStr" in str(Settings.model_fields[field].annotation)
    ] == [*SECRETS]
    shown = provenance(Settings(), {})
    assert name not in shown or shown[name][0] == "not set"


@pytest.mark.parametrize(
    "text",
    [
        'redis_url = ["redis://:hunter2hunter2@h"]',
        'anthropic_api_key = {a = "hunter2hunter2"}',
        'redis_url = "hunter2hunter2"',
        'anthropic_base_url = "ftp://u:hunter2hunter2@h"',
    ],
)
def test_a_command_that_cannot_use_a_secret_says_so_without_it(vault, text):
    toml(text)
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "config", "--vault", str(vault)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert HIDDEN not in done.stdout + done.stderr
    assert text.partition(" ")[0] in done.stderr.lower()


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://:p@h:6379/0",
        "rediss://u:p@h:1/1?x=y",
        "unix:///run/redis.sock",
        "redis://[::1]:6379/0",
    ],
)
def test_an_address_of_redis_is_taken_as_it_is(url):
    assert Settings(redis_url=url).redis_url.get_secret_value() == url


@pytest.mark.parametrize("url", ["h", "http://h", "redis://h:x", "redis://h:99999", "redis://[::1", "redis"])
def test_what_is_no_address_of_redis_is_refused(url):
    assert "redis://" in explained(redis_url=url)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example",
        "https://api.example:8443/v1",
        "http://127.0.0.1:9",
        "http://localhost:1/x",
        "http://[::1]:8080",
        "http://127.1.2.3",
    ],
)
def test_claude_may_be_asked_over_tls_or_on_this_machine(url):
    assert Settings(anthropic_base_url=url).anthropic_base_url == url


@pytest.mark.parametrize(
    "url",
    [
        *(
            "api.example",
            "http://api.example",
            "http://10.0.0.1",
            "http://0.0.0.0",
            "ftp://127.0.0.1",
            "file:///etc/passwd",
        ),
        *(
            "https://",
            "https:///x",
            "http://127.0.0.1.evil.example",
            "http://localhost.evil.example",
            "https://u:p@h",
        ),
        *(
            "http://127.0.0.1@evil.example",
            "https://h:x",
            "https://[::1",
            "https://a b",
            "https://h\n",
            "http://[::]:1",
            "//h",
        ),
    ],
)
def test_claude_is_not_asked_in_the_clear_elsewhere(url):
    assert "https://" in explained(anthropic_base_url=url)


@pytest.mark.parametrize("folder", ["Inbox", "In box/Für später", "Inbox/"])
def test_an_inbox_is_a_folder_of_the_vault(folder):
    assert Settings(inbox=folder).inbox == folder.rstrip("/")


@pytest.mark.parametrize(
    "folder", ["/Inbox", "../Inbox", "a/../b", ".hidden", "a/.b", "a//b", "a\nb", "./a", "a/ /b"]
)
def test_an_inbox_outside_of_the_vault_or_hidden_is_refused(folder):
    with pytest.raises(ValidationError, match="relative to the vault"):
        Settings(inbox=folder)


# Endpoints


ENDPOINT = '{"url": "https://api.example.org/v1", "model": "m", "key": "sk-secret"}'


def test_endpoints_are_tables_of_the_file_and_json_in_the_environment(monkeypatch):
    toml('[[endpoints]]\nurl = "http://localhost:11434/"\nkind = "ollama"\nmodel = "bge-m3"\nlocal = true\n')
    (one,) = Settings().endpoints
    assert (one.called, one.url, one.kind, one.local) == (
        "localhost:11434",
        "http://localhost:11434",
        "ollama",
        True,
    )
    monkeypatch.setenv("EVERINDEX_ENDPOINTS", f"[{ENDPOINT}]")
    (one,) = Settings().endpoints
    assert one.called == "api.example.org"
    assert Settings().endpoints_of("m") == [one]
    assert Settings().endpoints_of("other") == []


def test_the_keys_of_endpoints_are_shown_nowhere(monkeypatch):
    monkeypatch.setenv("EVERINDEX_ENDPOINTS", f"[{ENDPOINT}]")
    assert provenance(Settings(), {})["endpoints"] == ("api.example.org (m)", "environment")
    assert "sk-secret" not in repr(Settings())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('[{"url": "http://x/v1", "model": "m", "key": "sk-secret"}]', "table 1, url: has to be an https://"),
        ('[{"url": "https://a:sk-secret@x/v1", "model": "m"}]', "table 1, url: has to be an https://"),
        (
            '[{"url": "https://x/v1", "model": "m", "kye": "sk-secret"}]',
            "table 1, kye: there is no such setting",
        ),
        (
            '[{"url": "https://x/v1", "model": "m", "kind": "sk-secret"}]',
            "table 1, kind: Input should be 'openai'",
        ),
        ('[{"url": "https://x/v1", "model": "m", "key": ["sk-secret"]}]', "table 1, key: "),
        ('[{"url": "https://x/v1", "key": "sk-secret"}]', "table 1, model: Field required"),
        (f"[{ENDPOINT}, {ENDPOINT}]", "two endpoints are called api.example.org"),
        ('{"key": "sk-secret"}', "a valid list"),
        ("sk-secret", "has to be JSON"),
        ("[" * 100_000, "has to be JSON"),
    ],
)
def test_invalid_endpoints_are_explained_without_their_secrets(monkeypatch, given, said):
    monkeypatch.setenv("EVERINDEX_ENDPOINTS", given)
    found = explained()
    assert found.startswith("EVERINDEX_ENDPOINTS in the environment")
    assert said in found
    assert "sk-secret" not in found


@pytest.mark.parametrize(
    ("own", "price"),
    [({}, 0.0), ({"key": "k"}, 0.2), ({"key": "k", "usd_per_million_tokens": 0.02}, 0.02)],
)
def test_an_unknown_price_counts_as_the_highest(own, price):
    (one,) = Settings(endpoints=[{"url": "https://x/v1", "model": "m"} | own]).endpoints
    assert one.price == price


@pytest.mark.parametrize(
    ("own", "protocol"),
    [
        ({"url": "http://localhost:11434"}, "ollama"),
        ({"url": "http://localhost:11434/"}, "ollama"),
        ({"url": "http://localhost:11434/v1"}, "openai"),
        ({"url": "http://localhost:11434", "kind": "openai"}, "openai"),
        ({"url": "http://localhost:8080"}, "openai"),
        ({"url": "https://api.openai.com/v1"}, "openai"),
        ({"url": "http://localhost:8080", "kind": "ollama"}, "ollama"),
    ],
)
def test_the_protocol_of_an_endpoint_is_known_by_its_address_unless_it_is_given(own, protocol):
    (one,) = Settings(endpoints=[{"model": "m"} | own]).endpoints
    assert one.protocol == protocol
