"""What the commands share: options, the vault and service that the options select, and opening a page."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from pipelines.errors import ConfigurationError

if TYPE_CHECKING:
    from queue_config.settings import Settings
    from service.cli.in_process import InProcess
    from service.runtime.client import Service
    from service.usecases.search import View
    from workers.resources import Resources

Client: TypeAlias = "Service | InProcess"
PATH = click.Path(path_type=Path)
_ALL = "everindex.all"
_NEAR = 0.75
"""From which similarity a name is taken for a misspelt one: `opne` is `open`, and `recent` is not `rerank`."""


class _Text(click.types.StringParamType):
    r"""A text. A byte that is not UTF-8 becomes `\xff`, as in the path of a note whose name has it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return os.fsencode(super().convert(value, param, ctx)).decode("utf-8", "backslashreplace")


_TEXT = _Text()

folder_argument = click.argument(
    "folder", required=False, type=PATH, metavar="[VAULT]", help="The folder of notes."
)
vault_option = click.option("--vault", type=PATH, help="The folder of notes.")
state_option = click.option("--state", type=PATH, help="The folder for caches, queue and logs.")
domain_option = click.option("--domain", help="Ask only this domain.")
port_option = click.option("--port", type=int, help="The port to listen on.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
supervised_option = click.option("--supervised", is_flag=True, hidden=True)


class Commands(click.Group):
    """A group whose help lists its commands in the order of their definition, each with its first sentences.

    With `sections`, the names of commands by heading, the help shows the first of these lists, and all with `--all`.
    """

    sections: Mapping[str, Sequence[str]] = MappingProxyType({})
    elsewhere: Mapping[str, str] = MappingProxyType({})
    """What to do instead, by commands that other programs have and this one does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before a command; `help COMMAND` is `COMMAND --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        ctx.meta[_ALL] = "--all" in args[:2]  # whichever of `--help` and `--all` comes first
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command and its arguments. Raises UsageError that says what is meant by an unknown command."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            shown = [known for known, one in self.commands.items() if not one.hidden]
            ctx.fail(f"There is no command '{name}'{self.elsewhere.get(name) or did_you_mean(name, shown)}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command that takes any bytes for a text: a file's name may have them."""
        command = super().get_command(ctx, cmd_name)
        for parameter in command.params if command else ():
            if parameter.type is click.STRING:
                parameter.type = _TEXT
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists; click's own is sorted by name and truncates descriptions."""
        lists = self.sections or {"Commands": [n for n, one in self.commands.items() if not one.hidden]}
        shown = list(lists.items()) if ctx.meta.get(_ALL) else list(lists.items())[:1]
        for heading, names in shown:
            with formatter.section(heading):
                formatter.write_dl([(name, summary(self.commands[name])) for name in names])
        if more := sum(map(len, lists.values())) - sum(len(names) for _, names in shown):
            formatter.write_paragraph()
            formatter.write_text(
                f"`{ctx.command_path} --help --all` shows {more} more commands, and"
                f" `{ctx.command_path} COMMAND --help` all about one."
            )


def summary(command: click.Command) -> str:
    """Return the first paragraph of a command's help."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about a command or option that does not exist, with the nearest if one is near."""
    import difflib  # noqa: PLC0415 - most commands are right

    names = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(typed.lstrip("-"), names, 1, _NEAR)
    return f"; did you mean `{names[near[0]]}`?" if near else ""


def options_given(vault: Path | None, state: Path | None, port: int | None = None) -> dict[str, Any]:
    """Return the settings given as options; all others keep their sources."""
    named = {"vault": vault, "state": state, "port": port}
    return {name: value for name, value in named.items() if value is not None}


def settings_of(given: dict[str, Any]) -> Settings:
    """Return the settings; if only a state folder is given, use its vault. Raises ConfigurationError."""
    from pydantic import ValidationError  # noqa: PLC0415

    from queue_config.settings import (  # noqa: PLC0415
        Settings,
        SettingsFileError,
        explain,
    )
    from workers.vault_paths import VAULT_FILE  # noqa: PLC0415

    try:
        settings = Settings(**given)
        if settings.vault is None and settings.state is not None and (settings.state / VAULT_FILE).exists():
            return Settings(**given, vault=_vault_of(settings.state / VAULT_FILE))
    except ValidationError as error:
        raise ConfigurationError(f"settings: {explain(error, given)}") from error
    except SettingsFileError as error:
        raise ConfigurationError(str(error)) from error
    _warn_of_outdated()
    return settings


@cache
def _warn_of_outdated() -> None:
    """Warn on standard error, once per process, about settings that are renamed or none any more."""
    from queue_config.settings import outdated  # noqa: PLC0415
    from service.cli.console import err  # noqa: PLC0415

    for warning in outdated():
        err.say(f"warning: {warning}", "yellow")


def _vault_of(file: Path) -> Path:
    """Return the vault that a file in the state folder names. Raises ConfigurationError."""
    try:
        return Path(json.loads(file.read_text())["root"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"{file} is damaged; name the vault with --vault to repair it") from error


def question_of(words: Sequence[str]) -> str:
    """Return the words of a command as one question. Raises BadParameter if it is empty."""
    question = " ".join(words)
    if not question.strip():
        raise click.BadParameter("the question is empty; give at least one word")
    return question


def located(given: dict[str, Any], *, or_running: bool = True, near: Path | None = None) -> dict[str, Any]:
    """Return the given options, and the vault to use if they name none.

    That is the one in the environment or the config file, else the one around the file `near` or the current folder,
    else the only running one. Raises NotRunningError if none or several run.
    """
    from service.runtime.client import only_running  # noqa: PLC0415
    from workers.vault_paths import vault_around  # noqa: PLC0415

    vault, state = _place_given(given)
    if vault is None and state is None:
        around = vault_around(near.absolute().parent) if near and near.exists() else None
        vault = around or vault_around(Path.cwd())
        if vault is None and or_running:
            service = only_running()
            vault, state = service.root, service.state
    return given | {name: path for name, path in (("vault", vault), ("state", state)) if path is not None}


def vault_of(place: dict[str, Any]) -> Path:
    """Return the vault that `located` returned. Raises NotRunningError if it found a state folder of none."""
    from pipelines.errors import NotRunningError  # noqa: PLC0415

    if "vault" not in place:
        raise NotRunningError(
            f"{place['state']} is not the state folder of a vault; name the vault with --vault"
        )
    vault: Path = place["vault"]
    return vault


def service_of(given: dict[str, Any]) -> Service | None:
    """Return the running service of the selected vault, or None. Raises NotFoundError, NotRunningError."""
    from service.runtime.client import running  # noqa: PLC0415
    from workers.vault_paths import locate_vault  # noqa: PLC0415

    place = located(given)
    return running(locate_vault(vault_of(place), place.get("state"), create=False).state)


def _place_given(given: dict[str, Any]) -> tuple[Path | None, Path | None]:
    """Return the selected vault and state folder without reading all settings, which takes longer than a search."""
    from queue_config.folders import config_file  # noqa: PLC0415

    vault, state = given.get("vault"), given.get("state")
    if vault is None or state is None:
        says_more = config_file().exists() or any(
            name.upper().startswith("EVERINDEX_") for name in os.environ
        )
        if says_more or (state is not None and vault is None):
            settings = settings_of(given)
            return settings.vault, settings.state
    return vault, state


def need_service(given: dict[str, Any]) -> Service:
    """Return the running service, or raise the error that says how to start it."""
    from pipelines.errors import NotRunningError  # noqa: PLC0415

    service = service_of(given)
    if service is None:
        raise NotRunningError("Everindex is not running on this vault; start it with `everindex up VAULT`")
    return service


def client_of(given: dict[str, Any]) -> Client:
    """Return what answers questions about the selected vault: its running service, else its caches in this process.

    Raises NotFoundError, NotRunningError.
    """
    service = service_of(given)
    if service:
        return service
    from service.cli.in_process import InProcess  # noqa: PLC0415 - it takes longer to load than a service to answer

    return InProcess(resources_of(given))


def resources_of(given: dict[str, Any], *, create: bool = False) -> Resources:
    """Open the selected vault with its state; log to standard error.

    Only with `create` may the vault be one that was never indexed; its id and state folder are then created.
    """
    from queue_config.logs import configure  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    configure("command")
    resources = Resources(settings_of(located(given)), create=create)
    if not create and not resources.present():
        _warn_of_missing(resources.root)
    return resources


@cache
def _warn_of_missing(root: Path) -> None:
    """Warn on standard error, once per process, that a vault's folder is unavailable."""
    from service.cli.console import err  # noqa: PLC0415

    err.say(
        f"warning: the vault {root} is not there (moved away, or not mounted?), so this shows what was indexed last;"
        " mount it or move it back, or give its new folder with --vault",
        "yellow",
    )


def show_page(service: Service, page: str = "/") -> None:
    """Open one of our pages in the browser, signed in, and print a link in case that fails."""
    from service.cli.console import out  # noqa: PLC0415

    if open_signed_in(service, page):
        out.say(f"{service.address} opens in your browser. If it does not, open this link within a minute:")
    else:
        out.say("No browser could be started here. Open this link within a minute:")
    out.say(link(service, page))


def view_of(given: dict[str, Any]) -> View:
    """Return the search service over the caches, opened in this process."""
    from service.usecases.search import View  # noqa: PLC0415

    return View(resources_of(given), wait_for_model=True)


# Open a file in the user's browser, without output from the program that finds the browser.


def open_signed_in(service: Service, page: str = "/") -> bool:
    """Open one of our pages, signed in; return whether a browser could be started. Raises ServiceError.

    The code is passed in a file that only its owner can read, because every user can read the list of processes.
    """
    return open_file(Path(service.call("POST", "/session", page=True, to=page)["page"]))


def link(service: Service, page: str = "/") -> str:
    """Return a link to one of our pages that signs a browser in, once within a minute. Raises ServiceError."""
    code = service.call("POST", "/session")["code"]
    return f"{service.address}/open/{code}?to={page}" if page != "/" else f"{service.address}/open/{code}"


def open_file(file: Path) -> bool:
    """Open a file in the browser; return whether one could be started."""
    from service.runtime.programs import open_address  # noqa: PLC0415 - most commands open nothing

    return open_address(file.as_uri())


def open_hit(given: dict[str, Any], root: Path, path: str, line: int) -> None:
    """Record that the user chose a note, and open it like `open_note`, with the same errors."""
    from service.runtime.programs import open_note  # noqa: PLC0415 - most commands open nothing

    if settings_of(given).attention:
        from workers.attention import chosen  # noqa: PLC0415 - most users record nothing

        chosen(resources_of(given), [path], "opened")
    open_note(root, path, line)


# The filters as options, for every command that takes them.


Pairs = list[tuple[str, str]]


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose notes; it is called with them as `filters`, pairs of name and value."""

    @click.option(
        "--tag", multiple=True, metavar="TAG", help="Only notes with this tag, or one nested in it."
    )
    @click.option("--kind", multiple=True, metavar="KIND", help="Only notes of this kind.")
    @click.option("--since", metavar="YYYY-MM-DD", help="Only notes of that day or later.")
    @domain_option
    @click.option(
        "--scope", multiple=True, metavar="NAME", help="Only notes in this scope of `_scopes.yaml`."
    )
    @click.option(
        "--filter",
        "-f",
        "only",
        multiple=True,
        metavar="NAME=VALUE",
        help="Only notes that pass another filter: folder=y, format=pdf, until=2026-01-31, has=task ...",
    )
    @wraps(command)
    def with_filters(
        only: tuple[str, ...],
        domain: str | None,
        since: str | None,
        kind: tuple[str, ...],
        tag: tuple[str, ...],
        scope: tuple[str, ...],
        **others: Any,
    ) -> None:
        pairs = _read(only)
        pairs += [("tag", one) for one in tag] + [("kind", one) for one in kind]
        pairs += [("scope", one) for one in scope]
        pairs += [
            (name, value) for name, value in (("since", since), ("domain", domain)) if value is not None
        ]
        command(filters=pairs, **others)

    return with_filters


def _read(only: tuple[str, ...]) -> Pairs:
    pairs = [one.partition("=") for one in only]
    for name, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{name!r} is not a filter; write NAME=VALUE, as in tag=recipes")
    return [(name, value) for name, _, value in pairs]
