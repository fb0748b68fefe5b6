"""Settings: the only reader of the environment."""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import tomllib
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from queue_config.folders import config_file, is_visible_folder

# Addresses that settings give: whether they can be used, and used safely.


_REDIS_SCHEMES = ("redis", "rediss", "unix")


def is_of_redis(url: str) -> bool:
    """Say whether a URL is an address of Redis."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _REDIS_SCHEMES and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return usable


def is_encrypted(url: str) -> bool:
    """Say whether a URL is an HTTPS address without a user's name, or an HTTP address on this machine."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(parts.hostname))
        usable = usable and bool(parts.hostname) and parts.username is None and (parts.port or 1) > 0
    except ValueError:
        return False
    return usable and url.isprintable() and " " not in url


def _is_this_machine(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


OF_POSTGRESQL = ("postgresql://", "postgres://")
"""How an address of PostgreSQL begins."""
_NO_STORE = "it has to begin with postgresql://"
_NO_REDIS_URL = "is not a redis://, rediss:// or unix:// address"
_NO_INBOX = "has to be the path of a folder relative to the vault, without names that begin with a dot"
OLD_NAMES = {"chunk_target_words": "chunk_target_tokens", "chunk_overlap_words": "chunk_overlap_tokens"}
"""Settings that were renamed, by their new name: the old one works for one release."""

RETIRED = {
    "embedding_usd_a_day": "set usd_a_day, which limits endpoints and Claude, each",
    "tag_usd_a_day": "set usd_a_day, which limits endpoints and Claude, each",
    "tag_notes_a_day": "set usd_a_day; Claude gets 200 notes per dollar",
    "embedding_context": "set it for a domain, in _domains.yaml",
    "settle_seconds": "remove it; a note is read after 0.3 quiet seconds",
    "reconcile_seconds": "remove it; disk and index are compared every 5 minutes",
    "history_rows": "remove it; the history has at most 100,000 jobs",
}
"""What was a setting, and what to do instead: it works for one release, with a warning, and is on no page."""

NOTES_A_DOLLAR = 200
"""Notes that Claude gets per day and dollar of `usd_a_day`, so that failed requests, which cost nothing, are limited.

A note of 1,000 tokens costs 0.0004 dollars (2026-11), so that notes many times as long keep within the dollar.
"""

_NO_JSON = {
    "endpoints": 'has to be JSON such as [{"url": "http://localhost:11434", "kind": "ollama", "model": "bge-m3"}]',
    "chat": 'has to be JSON such as {"model": "claude-haiku-5-5"}',
}
_NO_BASE_URL = (
    "has to be an https:// address without a password (http:// only on this machine: http://127.0.0.1:8080), "
    "because the API key and the text of notes are sent there"
)


def _plain(name: str) -> AliasChoices:
    """Read a field from EVERINDEX_<NAME>, else from the plain NAME, else from its key in the TOML file."""
    return AliasChoices(f"EVERINDEX_{name.upper()}", name.upper(), name)


def _renamed(name: str) -> AliasChoices:
    """Read a field like `_plain`, and also from its name in the last release."""
    old = OLD_NAMES[name]
    prefixed = [f"EVERINDEX_{name.upper()}", name.upper(), f"EVERINDEX_{old.upper()}"]
    return AliasChoices(*prefixed, name, old)


class SettingsFileError(ValueError):
    """The TOML file cannot be read."""


_PORT_OF_OLLAMA = 11434
_DEAREST_USD = 0.2
"""US dollars per million tokens: what no provider's embeddings cost more than, by their lists of 2026-11."""


_DEAREST_CHAT_USD = 50.0
"""Likewise for a model that answers."""


class EndpointSettings(BaseModel):
    """A server that embeds, one table `[[endpoints]]` of the TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str = Field(description="https://api.openai.com/v1, or Ollama's http://localhost:11434")
    model: str = Field(min_length=1, description="the model's name on that server")
    kind: Literal["openai", "ollama"] | None = Field(
        default=None,
        description="the protocol: openai for /v1/embeddings, ollama for /api/embed;"
        " default: ollama at port 11434 without a path, else openai",
    )
    name: str = Field(default="", description="what messages call it; default: the host of its url")
    serves: str = Field(
        default="", description="the model's name in `embedding_model` and `embedding`; default: `model`"
    )
    key: SecretStr | None = Field(default=None, description="its API key; default: none")
    local: bool = Field(default=False, description="private notes may be sent to it")
    usd_per_million_tokens: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description=f"its price; default: 0 without a key, else {_DEAREST_USD}",
    )
    dimension: int | None = Field(
        default=None,
        ge=1,
        le=16_384,
        description="numbers per vector, if no server answers when an index is first built; default: it is asked",
    )

    @field_validator("url")
    @classmethod
    def _is_private(cls, url: str) -> str:
        if not is_encrypted(url):
            raise ValueError(_NO_BASE_URL)
        return url.rstrip("/")

    @property
    def called(self) -> str:
        """What messages call it."""
        return self.name or urlsplit(self.url).netloc

    @property
    def protocol(self) -> Literal["openai", "ollama"]:
        """The protocol: Ollama's at its usual address, where OpenAI's has a path (`/v1`)."""
        parts = urlsplit(self.url)
        return self.kind or ("ollama" if parts.port == _PORT_OF_OLLAMA and not parts.path else "openai")

    @property
    def price(self) -> float:
        """US dollars per million tokens; an unknown price counts as the highest, so that the day's limit holds."""
        if self.usd_per_million_tokens is None:
            return _DEAREST_USD if self.key else 0.0
        return self.usd_per_million_tokens


class ChatSettings(BaseModel):
    """The model that answers in conversations, the table `[chat]` of the TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    model: str = Field(
        min_length=1, description="the model's name: Claude's, or as the server at `url` has it"
    )
    url: str | None = Field(
        default=None,
        description="a server of OpenAI's shape, http://localhost:11434/v1; default: Anthropic's, with its own key",
    )
    key: SecretStr | None = Field(default=None, description="that server's API key; default: none")
    local: bool = Field(default=False, description="private notes may be sent to it")
    usd_per_million_tokens: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description=f"that server's highest price; default: 0 without a key, else {_DEAREST_CHAT_USD:g}",
    )
    expand: bool = Field(
        default=False, description="it adds to a question of one or two words, before the notes are searched"
    )

    @field_validator("url")
    @classmethod
    def _is_private(cls, url: str | None) -> str | None:
        if url is not None and not is_encrypted(url):
            raise ValueError(_NO_BASE_URL)
        return url.rstrip("/") if url else None

    @property
    def price(self) -> float:
        """US dollars per million tokens; an unknown price counts as the highest, so that the day's limit holds."""
        if self.usd_per_million_tokens is None:
            return _DEAREST_CHAT_USD if self.key else 0.0
        return self.usd_per_million_tokens


def from_toml(settings_cls: type[BaseSettings]) -> TomlConfigSettingsSource:
    """Read the TOML file, if there is one. Raises SettingsFileError."""
    try:
        return TomlConfigSettingsSource(settings_cls, toml_file=config_file())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsFileError(
            f"{config_file()} cannot be read as TOML ({error}); correct it or move it away"
        ) from error


class Settings(BaseSettings):
    """The settings of a process: from arguments, else the environment, else the TOML file, else these defaults."""

    model_config = SettingsConfigDict(
        env_prefix="EVERINDEX_",
        extra="forbid",
        frozen=True,
        env_ignore_empty=True,
        # An error that reaches a log must not contain a password.
        hide_input_in_errors=True,
    )

    vault: Path | None = Field(
        default=None,
        description="the folder of notes; default: the vault around the current folder, else the only running one",
        examples=['"~/notes"'],
    )
    state: Path | None = Field(
        default=None,
        description="the folder of indexes, decisions, token and logs; default: one per vault in"
        " ~/.local/state/everindex",
        examples=['"/var/lib/everindex"'],
    )
    port: int = Field(
        default=8741,
        ge=0,
        le=65535,
        description="where the service listens on 127.0.0.1; of two vaults that run at once, each needs its own",
        examples=["8742"],
    )
    redis_url: SecretStr | None = Field(
        default=None,
        validation_alias=_plain("redis_url"),
        description="keep the queue in Redis, for processes on several machines; default: an SQLite file",
        examples=['"redis://localhost:6379/0"'],
    )
    store: SecretStr | None = Field(
        default=None,
        description="keep state and indexes in PostgreSQL, `postgresql://...`; default: SQLite files in `state`",
    )
    memory_mb: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="the most memory of a query worker for vectors, at one byte per dimension and passage; beyond"
        " it, PostgreSQL with pgvector finds the nearest passages, or without `store` the files; default: no limit",
    )
    vector_index: Literal["auto", "exact", "ivfflat", "hnsw"] = Field(
        default="auto",
        description="how pgvector finds the nearest passages; auto: IVFFlat, above 100,000 passages HNSW",
    )
    embedding_model: str | None = Field(
        default=None,
        validation_alias=_plain("embedding_model"),
        description="the model of every domain, whatever _domains.yaml says; default: each domain's own",
        examples=['"multilingual-e5-small"'],
    )
    allowed_models: str = Field(
        default="",
        description="comma-separated models that _domains.yaml may have downloaded or loaded from a folder;"
        " default: none",
        examples=['"BAAI/bge-large-en-v1.5"'],
    )
    endpoints: Annotated[list[EndpointSettings], NoDecode] = Field(
        default=[],
        description="servers that embed, in the order in which they are tried; default: none, models run here",
        examples=['[{url = "http://localhost:11434", model = "bge-m3"}]'],
    )
    chat: Annotated[ChatSettings | None, NoDecode] = Field(
        default=None,
        description="the model that answers in conversations; default: none, there are no conversations",
        examples=['{model = "claude-haiku-5-5"}'],
    )
    usd_a_day: float = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="the most that endpoints and conversations may cost per day (UTC), in dollars, and as much again"
        " for the tags that Claude proposes",
        examples=["0.5"],
    )
    anthropic_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=_plain("anthropic_api_key"),
        description="Claude proposes tags; default: none, a proposer on this machine does",
        examples=['"sk-ant-..."'],
    )
    tag_model: str | None = Field(
        default=None,
        description="the Claude model that proposes tags; default: the newest Haiku",
    )
    agents_see_private: str = Field(
        default="",
        description="comma-separated names of agents' clients that see private notes, too; default: none",
        examples=['"claude-code"'],
    )
    attention: bool = Field(
        default=False,
        description="record on this machine which notes you and your agents choose; a ranking option counts them",
        examples=["true"],
    )
    inbox: str = Field(
        default="",
        description="the folder of the vault into which programs write new notes (`POST /notes`);"
        " default: none, they cannot",
        examples=['"Inbox"'],
    )
    max_note_mb: float = Field(
        default=10.0,
        gt=0,
        allow_inf_nan=False,
        description="the largest note that is indexed; a larger one is parked",
        examples=["25"],
    )
    history_days: float = Field(
        default=14.0,
        gt=0,
        le=36_500,
        allow_inf_nan=False,
        description="for how many days the history of jobs and the log of each note are kept",
        examples=["90"],
    )

    # Without an example: not among the settings that a person needs, but described by a source document or rare.
    domain: str | None = Field(
        default=None,
        validation_alias=_plain("domain"),
        description="serve and index only this domain, with a process per domain; default: all",
    )
    chunk_target_words: int | None = Field(
        default=None,
        ge=20,
        validation_alias=_renamed("chunk_target_words"),
        description="words per passage; default: 600, less for a model with a short window",
    )
    chunk_overlap_words: int | None = Field(
        default=None,
        ge=0,
        validation_alias=_renamed("chunk_overlap_words"),
        description="words that two neighbouring passages share; default: 80, less for a short window",
    )
    agents_have_all_tools: bool = Field(
        default=False, description="agents have the tools `index` and `similar`, too"
    )
    anthropic_base_url: str | None = Field(
        default=None,
        validation_alias=_plain("anthropic_base_url"),
        description="another server with Anthropic's API, by https:// or on this machine; default: Anthropic's own",
    )

    # RETIRED: those with a value are constants, which only tests change.
    embedding_usd_a_day: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="maximum cost of endpoints per day, in dollars"
    )
    tag_usd_a_day: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="maximum cost of Claude per day, in dollars"
    )
    tag_notes_a_day: int | None = Field(
        default=None, ge=0, description="maximum number of notes sent to Claude per day"
    )
    embedding_context: Literal["off", "title", "breadcrumb"] | None = Field(
        default=None, description="overrides every domain's embedding_context; default: each domain's own"
    )
    # Most of the 0.42 s from a save to its answer (2026-11-21), so that a save in several steps is read once.
    settle_seconds: float = Field(
        default=0.3,
        ge=0,
        allow_inf_nan=False,
        description="a note is read when it has not changed for this many seconds",
    )
    # Comparing 3,176 notes with the index takes 71 ms (2026-11-21), and finds only what no event reported.
    reconcile_seconds: float = Field(
        default=300.0,
        gt=0,
        allow_inf_nan=False,
        description="interval in seconds at which disk and index are compared",
    )
    # They take 60 MB, and a page of them is read in 1 ms, or 17 ms if few match (2026-11-23).
    history_rows: int = Field(
        default=100_000, ge=1, le=10_000_000, description="maximum number of jobs in the history"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class names the parameters
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: arguments, environment, TOML file."""
        return (
            init_settings,
            env_settings,
            from_toml(settings_cls),
        )

    @field_validator("redis_url")
    @classmethod
    def _is_of_redis(cls, url: SecretStr | None) -> SecretStr | None:
        """Refuse an invalid key without repeating it; the client's own message would repeat it."""
        if url is not None and not is_of_redis(url.get_secret_value()):
            raise ValueError(_NO_REDIS_URL)
        return url

    @field_validator("store")
    @classmethod
    def _is_of_postgresql(cls, address: SecretStr | None) -> SecretStr | None:
        """Refuse an address of something else without repeating its password."""
        if address is not None and not address.get_secret_value().startswith(OF_POSTGRESQL):
            raise ValueError(_NO_STORE)
        return address

    @field_validator("inbox")
    @classmethod
    def _is_a_folder(cls, folder: str) -> str:
        if folder and not is_visible_folder(folder):
            raise ValueError(_NO_INBOX)
        return folder.rstrip("/")

    @field_validator("anthropic_base_url")
    @classmethod
    def _is_private(cls, url: str | None) -> str | None:
        """Refuse an address to which the API key and notes would be sent unencrypted."""
        if url is not None and not is_encrypted(url):
            raise ValueError(_NO_BASE_URL)
        return url

    @field_validator("endpoints", "chat", mode="before")
    @classmethod
    def _are_json(cls, given: object, info: ValidationInfo) -> object:
        """Read the JSON of a variable here: the library's own error would end the program without a word of why."""
        try:
            return json.loads(given) if isinstance(given, str) else given
        except (ValueError, RecursionError):
            raise ValueError(_NO_JSON[str(info.field_name)]) from None

    @field_validator("endpoints")
    @classmethod
    def _have_names(cls, endpoints: list[EndpointSettings]) -> list[EndpointSettings]:
        names = [one.called for one in endpoints]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two endpoints are called {min(twice)}: give each a `name` of its own")
        return endpoints

    def endpoints_of(self, model: str) -> list[EndpointSettings]:
        """Return the endpoints that serve a model, in the order in which they are tried."""
        return [one for one in self.endpoints if (one.serves or one.model) == model]

    @property
    def chosen_models(self) -> frozenset[str]:
        """The models that these settings name; naming them is permission to use them."""
        names = [self.embedding_model or "", *self.allowed_models.split(",")]
        return frozenset(name.strip() for name in names if name.strip())

    @property
    def clients_that_see_private(self) -> frozenset[str]:
        """The names of the agents' clients that see private notes."""
        return frozenset(filter(None, map(str.strip, self.agents_see_private.split(","))))

    @property
    def endpoints_usd_a_day(self) -> float:
        """The most that endpoints may cost per day, in US dollars."""
        return self.usd_a_day if self.embedding_usd_a_day is None else self.embedding_usd_a_day

    @property
    def claude_usd_a_day(self) -> float:
        """The most that Claude may cost per day, in US dollars."""
        return self.usd_a_day if self.tag_usd_a_day is None else self.tag_usd_a_day

    @property
    def claude_notes_a_day(self) -> int:
        """The most notes that Claude gets per day."""
        most = self.tag_notes_a_day
        return round(NOTES_A_DOLLAR * self.claude_usd_a_day) if most is None else most

    @property
    def memory_bytes(self) -> float | None:
        """The memory for vectors of a query worker, in bytes; None: no limit."""
        return None if self.memory_mb is None else self.memory_mb * 1_000_000

    @property
    def max_note_bytes(self) -> int:
        """The largest note that is indexed, in bytes."""
        return int(self.max_note_mb * 1_000_000)


# Where settings were given, under which names, and what is wrong with them, in words.


def explain(error: ValidationError, given: Container[str] = ()) -> str:
    """Say in one line which settings are invalid, why, and where they were given, without secrets.

    `given` are the names of the arguments. Values of unknown names are not repeated.
    """
    unsaid = {key.lower() for name in Settings.model_fields if _is_unsaid(name) for key in _keys(name)}
    said = []
    for one in error.errors(include_url=False):
        name, text = ".".join(map(str, one["loc"])) or "settings", one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden":
            text = "there is no such setting"
        if one["type"] == "extra_forbidden" and len(one["loc"]) == 1:
            # Unknown variables are other programs', so it is in the file.
            text += _meant(name, Settings.model_fields.keys() - RETIRED)
            name += f" in {config_file()}"
        elif one["loc"]:
            key = str(one["loc"][0])
            text += "" if key.lower() in unsaid else f" (got {one['input']!r})"
            name = _place(key, given) + "".join(f", {_part(part)}" for part in one["loc"][1:])
        said.append(f"{name}: {text}")
    return "; ".join(said)


def _part(part: str | int) -> str:
    """Return what an error calls a part of a setting: the number of a table, from 1, or its key."""
    return f"table {part + 1}" if isinstance(part, int) else part


def _place(key: str, given: Container[str]) -> str:
    """Return the name under which a setting was given, and where; `key` is what the error calls it."""
    name = next((own for own in Settings.model_fields if key in _keys(own)), key)
    origin = _origins(given).get(name, "argument")
    if origin == "argument":
        return name
    if origin == "environment":
        return f"{key if key.isupper() else f'EVERINDEX_{key.upper()}'} in the environment"
    return f"{name if key.isupper() else key} in {origin}"


def _origins(given: Container[str]) -> dict[str, str]:
    """Return where each setting that is not a default was given: `argument`, `environment`, or the TOML file."""
    environment, toml = EnvSettingsSource(Settings)(), from_toml(Settings)()
    origins: dict[str, str] = {}
    for name in Settings.model_fields:
        keys = _keys(name)
        if name in given:
            origins[name] = "argument"
        elif any(key in environment for key in keys):
            origins[name] = "environment"
        elif any(key in toml for key in keys):
            origins[name] = str(config_file())
    return origins


def _keys(name: str) -> list[str]:
    """Return the names under which a setting may be given."""
    alias = Settings.model_fields[name].validation_alias
    return [name, *(map(str, alias.choices) if isinstance(alias, AliasChoices) else ())]


def outdated() -> list[str]:
    """Return a warning for each setting that the environment or the TOML file gives, renamed or no longer one."""
    environment = EnvSettingsSource(Settings, env_ignore_empty=True).env_vars
    toml = from_toml(Settings).toml_data
    until = "works until the next minor version"
    advice = {old: f"is now called {new}; the old name {until}" for new, old in OLD_NAMES.items()}
    advice |= {name: f"is no longer a setting and {until}: {instead}" for name, instead in RETIRED.items()}
    return [
        f"{called} {said}"
        for name, said in advice.items()
        for called, given in (
            (f"EVERINDEX_{name.upper()}", environment.get(f"everindex_{name}")),
            (name, toml.get(name)),
        )
        if given is not None
    ]


def unknown_variables() -> list[str]:
    """Return a message for each variable that is named like a setting and is none: nothing reads it."""
    prefix = str(Settings.model_config["env_prefix"])
    names = {
        name: {key.upper() if key.isupper() else f"{prefix}{key.upper()}" for key in _keys(name)}
        for name in Settings.model_fields
    }
    old = {f"{prefix}{name.upper()}" for name in OLD_NAMES.values()}
    known = old.union(*names.values())
    meant = set[str]().union(*(keys for name, keys in names.items() if name not in RETIRED)) - old
    given = sorted(key for key in os.environ if key.upper().startswith(prefix) and key.upper() not in known)
    return [f"{key} is set, and there is no such setting{_meant(key.upper(), meant)}" for key in given]


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _is_secret(name: str) -> bool:
    return "SecretStr" in str(Settings.model_fields[name].annotation)


def _is_unsaid(name: str) -> bool:
    # An address may have a password in it, and an endpoint a key.
    return _is_secret(name) or name.endswith("_url") or name in ("endpoints", "chat")


def _shown(name: str, value: Any) -> str:
    """Return a value as text: for a secret only whether it is set; for no value, the default's description."""
    if _is_secret(name):
        return "set" if value else "not set"
    default = str(Settings.model_fields[name].description).partition("default: ")[2]
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, ChatSettings):
        return f"{value.model} ({value.url or 'Anthropic'})"
    if isinstance(value, list) and value:
        return ", ".join(f"{one.called} ({one.serves or one.model})" for one in value)
    return default if value in (None, "", []) else str(value)


def provenance(settings: Settings, given: Container[str]) -> dict[str, tuple[str, str]]:
    """Return each setting that a person needs, or that is set: its value as text, and where it came from.

    `given` are the names of the arguments.
    """
    origins = _origins(given)
    return {
        name: (_shown(name, getattr(settings, name)), origins.get(name, "default"))
        for name, field in Settings.model_fields.items()
        if field.examples or name in origins
    }
