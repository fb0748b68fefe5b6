"""Where settings were given, under which names, and what is wrong with them, in words."""

from __future__ import annotations

import difflib
import os
from collections.abc import Container, Iterable
from typing import Any

from pydantic import AliasChoices, ValidationError
from pydantic_settings import EnvSettingsSource

from queue_config.folders import config_file
from queue_config.settings import OLD_NAMES, Settings, from_toml


def explain(error: ValidationError, given: Container[str] = ()) -> str:
    """Say in one line which settings are invalid, why, and where they were given, without secrets.

    `given` are the names of the arguments. Values of unknown names are not repeated.
    """
    unsaid = {key.lower() for name in Settings.model_fields if _is_unsaid(name) for key in _keys(name)}
    said = []
    for one in error.errors(include_url=False):
        name, text = ".".join(map(str, one["loc"])) or "settings", one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden":  # unknown variables are other programs', so it is in the file
            text = "there is no such setting" + _meant(name, Settings.model_fields)
            name += f" in {config_file()}"
        elif one["loc"]:
            key = str(one["loc"][0])
            text += "" if key.lower() in unsaid else f" (got {one['input']!r})"
            name = _place(key, given)
        said.append(f"{name}: {text}")
    return "; ".join(said)


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


def old_names() -> list[str]:
    """Return a warning for each setting that the environment or the TOML file gives under its former name."""
    environment = EnvSettingsSource(Settings, env_ignore_empty=True).env_vars
    toml = from_toml(Settings).toml_data
    return [
        f"{old} is now called {new}; the old name works until the next minor version"
        for new, name in OLD_NAMES.items()
        for old, given in (
            (f"EVERINDEX_{name.upper()}", environment.get(f"everindex_{name}")),
            (name, toml.get(name)),
        )
        if given is not None
    ]


def unknown_variables() -> list[str]:
    """Return a message for each variable that is named like a setting and is none: nothing reads it."""
    prefix = str(Settings.model_config["env_prefix"])
    known = {
        key.upper() if key.isupper() else f"{prefix}{key.upper()}"
        for name in Settings.model_fields
        for key in _keys(name)
    } | {f"{prefix}{name.upper()}" for name in OLD_NAMES.values()}
    given = sorted(key for key in os.environ if key.upper().startswith(prefix) and key.upper() not in known)
    return [f"{key} is set, and there is no such setting{_meant(key.upper(), known)}" for key in given]


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _is_secret(name: str) -> bool:
    return "SecretStr" in str(Settings.model_fields[name].annotation)


def _is_unsaid(name: str) -> bool:
    return _is_secret(name) or name.endswith("_url")  # an address may have a password in it


def _shown(name: str, value: Any) -> str:
    """Return a value as text: for a secret only whether it is set; for no value, the default's description."""
    if _is_secret(name):
        return "set" if value else "not set"
    default = str(Settings.model_fields[name].description).partition("default: ")[2]
    if isinstance(value, bool):
        return "on" if value else "off"
    return default if value in (None, "") else str(value)


def provenance(settings: Settings, given: Container[str]) -> dict[str, tuple[str, str]]:
    """Return for each setting its value as text and where it came from; `given` are the names of the arguments."""
    origins = _origins(given)
    return {
        name: (_shown(name, getattr(settings, name)), origins.get(name, "default"))
        for name in Settings.model_fields
    }
