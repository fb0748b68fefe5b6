"""Settings: the only reader of the environment."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from queue_config.folders import config_file


def _plain(name: str) -> AliasChoices:
    """Read a field from EVERINDEX_<NAME>, else from the plain NAME, else from its key in the TOML file."""
    return AliasChoices(f"EVERINDEX_{name.upper()}", name.upper(), name)


class SettingsFileError(ValueError):
    """The TOML file cannot be read."""


def _from_toml(settings_cls: type[BaseSettings]) -> TomlConfigSettingsSource:
    """Read the TOML file, if there is one. Raises SettingsFileError."""
    try:
        return TomlConfigSettingsSource(settings_cls, toml_file=config_file())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsFileError(
            f"{config_file()} cannot be read as TOML ({error}); correct it or move it away"
        ) from error


class Settings(BaseSettings):
    """What a process is told: arguments, then the environment, then the TOML file, then these defaults."""

    model_config = SettingsConfigDict(
        env_prefix="EVERINDEX_", extra="forbid", frozen=True, env_ignore_empty=True
    )

    vault: Path | None = Field(None, description="the folder of notes")
    state: Path | None = Field(None, description="caches, queue, token and logs; default: one folder a vault")
    port: int = Field(8741, ge=0, le=65535, description="the query worker's port on 127.0.0.1")
    redis_url: SecretStr | None = Field(
        None, validation_alias=_plain("redis_url"), description="Redis for the queue; default: an SQLite file"
    )
    embedding_model: str | None = Field(
        None, validation_alias=_plain("embedding_model"), description="overrides every domain's embedding"
    )
    embedding_backend: Literal["torch", "openvino"] = Field(
        "torch",
        validation_alias=_plain("embedding_backend"),
        description="what the model computes with; openvino needs everindex[openvino]",
    )
    domain: str | None = Field(
        None, validation_alias=_plain("domain"), description="serve and index this domain alone"
    )
    chunk_target_tokens: int | None = Field(
        None, ge=20, description="words a chunk; default: 600, less for a model with a short window"
    )
    chunk_overlap_tokens: int | None = Field(
        None, ge=0, description="words two neighbouring chunks share; default: 80, less for a short window"
    )
    max_note_mb: float = Field(10.0, gt=0, allow_inf_nan=False, description="a larger note is parked")
    anthropic_api_key: SecretStr | None = Field(
        None,
        validation_alias=_plain("anthropic_api_key"),
        description="Claude proposes tags where it is set; else nothing leaves the machine",
    )
    tag_model: str | None = Field(
        None, description="the Claude model that proposes; default: the newest Haiku"
    )
    anthropic_base_url: str | None = Field(
        None,
        validation_alias=_plain("anthropic_base_url"),
        description="another address that speaks Anthropic's API",
    )
    tag_notes_a_day: int = Field(200, ge=0, description="so many notes a day are sent to Claude")
    tag_usd_a_day: float = Field(
        1.0, ge=0, allow_inf_nan=False, description="so many dollars a day are spent on Claude"
    )
    settle_seconds: float = Field(
        0.3, ge=0, allow_inf_nan=False, description="a path is read after it was quiet for so long"
    )
    reconcile_seconds: float = Field(
        300.0, gt=0, allow_inf_nan=False, description="disk and ledger are compared so often"
    )
    history_days: float = Field(
        14.0, gt=0, le=36_500, allow_inf_nan=False, description="jobs are kept in the history for so long"
    )
    history_rows: int = Field(100_000, ge=1, le=10_000_000, description="so many jobs are kept at most")

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
            _from_toml(settings_cls),
        )

    @property
    def max_note_bytes(self) -> int:
        """The largest note that is indexed, in bytes."""
        return int(self.max_note_mb * 1_000_000)


def explain(error: ValidationError) -> str:
    """Say in one line which settings cannot be used and why; what stands under an unknown name stays unsaid."""
    return "; ".join(
        f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}"
        + ("" if e["type"] == "extra_forbidden" else f" (got {e.get('input')!r})")
        for e in error.errors(include_url=False)
    )


def provenance(settings: Settings, given: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return for each setting its value as text and where it came from; `given` are the arguments."""
    environment = EnvSettingsSource(Settings)()
    toml = _from_toml(Settings)()
    rows: dict[str, tuple[str, str]] = {}
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        keys = [str(c) for c in alias.choices] if isinstance(alias, AliasChoices) else [name]
        if name in given:
            origin = "argument"
        elif any(key in environment for key in keys):
            origin = "environment"
        elif any(key in toml for key in keys):
            origin = str(config_file())
        else:
            origin = "default"
        value = getattr(settings, name)
        shown = ("set" if value else "not set") if "SecretStr" in str(field.annotation) else str(value)
        rows[name] = (shown, origin)
    return rows
