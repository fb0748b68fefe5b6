"""systemd user units: Everindex starts at login, and can write only to its state folder and the vault."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pipelines.errors import ConfigurationError, ServiceError
from pipelines.vault.atomic import write_atomic
from queue_config.folders import config_file

# Process, command, and whether it may write notes: only the worker applies confirmed tags.
PROCESSES = {"watch": False, "work": True, "serve": False}
MODULE = "everindex"
"""What a unit starts."""

_UNIT = """\
[Unit]
Description=Everindex {process} {vault}

[Service]
Type=exec
ExecStart={command}
Environment=HF_HUB_OFFLINE=1
Restart=on-failure
RestartSec=2
TimeoutStopSec=20
UMask=0077
NoNewPrivileges=yes
PrivateUsers=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={writable}
ProtectControlGroups=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """Everything that the text of a vault's units depends on."""

    vault_id: str
    vault: Path
    state: Path
    port: int
    python: Path = Path(sys.executable)

    def units(self) -> dict[str, str]:
        """Return the text of each unit by its file's name. Raises ConfigurationError for a path it cannot hold."""
        return {unit_name(self.vault_id, process): self._unit(process) for process in PROCESSES}

    def _unit(self, process: str) -> str:
        arguments = ["--vault", str(self.vault), "--state", str(self.state), "--port", str(self.port)]
        # -P: nothing in the current folder may run as code.
        command = [str(self.python), "-P", "-m", MODULE, process, *arguments]
        writable = [self.state, *([self.vault] if PROCESSES[process] else [])]
        return _UNIT.format(
            process=process,
            vault=_quoted(str(self.vault)),
            # In a command a dollar begins a variable; doubled, it is a literal dollar.
            command=" ".join(_quoted(word).replace("$", "$$") for word in command),
            writable=" ".join(_quoted(str(path)) for path in writable),
        )


def unit_name(vault_id: str, process: str) -> str:
    """Return the name of a unit's file."""
    return f"everindex-{vault_id}-{process}.service"


def unit_folder() -> Path:
    """Return the folder of the user's own units."""
    return config_file().parent.parent / "systemd" / "user"


def unit_files(vault_id: str) -> list[Path]:
    """Return the unit files of a vault that exist."""
    paths = [unit_folder() / unit_name(vault_id, process) for process in PROCESSES]
    return [path for path in paths if path.exists()]


@dataclass(frozen=True, slots=True)
class UnitPaths:
    """What a written unit needs: the Python and the module that it starts, the vault and the state folder."""

    python: Path
    module: str
    vault: Path
    state: Path

    @classmethod
    def read(cls, unit: Path) -> UnitPaths:
        """Return the paths in a unit's command. Raises OSError, ValueError or LookupError without such a command."""
        lines = unit.read_text(encoding="utf-8").splitlines()
        command = next((line for line in lines if line.startswith("ExecStart=")), "")
        words = [
            word.replace("$$", "$").replace("%%", "%")
            for word in shlex.split(command.removeprefix("ExecStart="))
        ]
        options = dict(pairwise(words))
        return cls(Path(words[0]), options["-m"], Path(options["--vault"]), Path(options["--state"]))


def install(wanted: Installed) -> list[Path]:
    """Write the units, start them, and start them at every login; return their files.

    Raises ConfigurationError without systemd, and ServiceError if systemd refuses.
    """
    _require_systemd()
    folder = unit_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in wanted.units().items():
        write_atomic(folder / name, text.encode())
    written = unit_files(wanted.vault_id)
    _systemctl("daemon-reload")
    _systemctl("enable", *(path.name for path in written))
    _systemctl("restart", *(path.name for path in written))
    return written


def uninstall(vault_id: str) -> list[Path]:
    """Stop and remove the units of a vault; return the removed files. Raises as `install` does."""
    written = unit_files(vault_id)
    if written:
        _require_systemd()
        _systemctl("disable", "--now", *(path.name for path in written))
        for path in written:
            path.unlink()
        _systemctl("daemon-reload")
    return written


def states(vault_id: str) -> dict[str, str]:
    """Return systemd's state of each unit of a vault: active, failed, ... Raises as `install` does."""
    written = unit_files(vault_id)
    if not written:
        return {}
    _require_systemd()
    # It exits with an error if a unit is not active, but still prints one line per unit.
    said = _systemctl("is-active", *(path.name for path in written), check=False).split()
    if len(said) != len(written):
        raise ServiceError("`systemctl --user is-active` gave no answer; is there a user session (loginctl)?")
    return dict(zip((path.name for path in written), said, strict=True))


def _require_systemd() -> None:
    if shutil.which("systemctl") is None:
        raise ConfigurationError(
            "systemd was not found, which this command needs (Linux); start `everindex up VAULT` at login by "
            "your system's own means instead"
        )
    try:
        _systemctl("show", "--property=Version")
    except ServiceError as error:
        raise ServiceError(
            f"{error}; no systemd runs for this user here (containers and `su` have none): log in as the user, or "
            "run `everindex up VAULT`"
        ) from error


def _systemctl(*arguments: str, check: bool = True) -> str:
    command = ["systemctl", "--user", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - units that we named
    if check and done.returncode:
        raise ServiceError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _quoted(word: str) -> str:
    """Return a word as systemd reads it back (systemd.syntax(7), Quoting; systemd.unit(5), Specifiers)."""
    if not word.isprintable():
        raise ConfigurationError(
            f"{word!r} cannot be written in a systemd unit; choose a path of printable characters"
        )
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
