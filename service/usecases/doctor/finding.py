"""What a check finds, and what it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from queue_config.settings import Settings
from workers.vault_paths import VaultPaths

Level = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact of one check, and what to do about it: `cure` is empty where nothing is wrong."""

    check: str
    level: Level
    message: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """What is examined: the settings, the vault's folder, and where its state lies; None: not known."""

    settings: Settings
    root: Path | None = None
    place: VaultPaths | None = None


def ok(check: str, message: str) -> Finding:
    """Return a finding that nothing is wrong."""
    return Finding(check, "ok", message)


def warning(check: str, message: str, cure: str) -> Finding:
    """Return a finding that Everindex works with, less well."""
    return Finding(check, "warning", message, cure)


def failure(check: str, message: str, cure: str) -> Finding:
    """Return a finding that keeps something from working, or lets others read the notes."""
    return Finding(check, "failure", message, cure)


def cured(error: Exception) -> tuple[str, str]:
    """Return the message of one of our errors in two parts: what happened, and what to do."""
    message, _, cure = str(error).rpartition("; ")
    return (message, cure) if message else (cure, "run `everindex status`, which may say more")
