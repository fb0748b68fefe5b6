"""The command that sets up a vault: domains, a starting vocabulary, what to ignore."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.errors import NotFoundError, NotRunningError, VaultIdError
from service.cli.console import out, print_json
from service.cli.options import (
    folder_argument,
    json_option,
    located,
    options_given,
    port_option,
    service_of,
    settings_of,
    state_option,
    vault_of,
    vault_option,
)
from service.cli.run import this_command
from service.usecases.text import by_format, counted

if TYPE_CHECKING:
    from service.usecases.setup import Choices, PlannedFile, Survey

app = click.Group()
_MOST_ASKED = 20  # folders to ignore; one more question covers the others
_NO = ("n", "no")
_ANSWERS = {"": True, "y": True, "yes": True} | dict.fromkeys(_NO, False)


@app.command()
@folder_argument
@vault_option
@state_option
@click.option(
    "--domain", "domains", multiple=True, metavar="FOLDER", help="Make this folder a domain of its own."
)
@click.option(
    "--ignore", "ignored", multiple=True, metavar="FOLDER", help="Keep this folder out of the index."
)
@click.option("--no-ignore", is_flag=True, help="Write no .everindexignore.")
@click.option("--no-vocabulary", is_flag=True, help="Write no _taxonomy.md.")
@click.option("--no-documents", is_flag=True, help="Name no formats of documents in _domains.yaml.")
@click.option("--yes", is_flag=True, help="Ask nothing, and write the files.")
@click.option("--dry-run", is_flag=True, help="Ask nothing, and only show the files.")
@json_option
def init(
    folder: Path | None,
    vault: Path | None,
    state: Path | None,
    domains: tuple[str, ...],
    ignored: tuple[str, ...],
    *,
    no_ignore: bool,
    no_vocabulary: bool,
    no_documents: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set up a vault: domains, a starting vocabulary, what to ignore.

    Files that exist stay as they are.
    """
    from service.usecases.setup import plan, write  # noqa: PLC0415 - help has to be instant

    seen = _survey(_root(options_given(folder or vault, state)), quiet=as_json)
    asks = not (yes or dry_run or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    choices = _choices(seen, domains, None if no_ignore else ignored)
    choices = replace(choices, vocabulary=not no_vocabulary, documents=not no_documents)
    if asks:
        choices = _ask(seen, choices, domains=not domains, ignored=not (ignored or no_ignore))
    files = plan(seen, choices)
    if not as_json:
        _print_plan(seen, choices, files)
    new = [file for file in files if not file.exists]
    agreed = (yes and not dry_run) or (asks and new and _is_yes(f"Write {_files(len(new))}?"))
    written = [file.path for file, was_written in write(seen.root, new) if was_written] if agreed else []
    if as_json:
        print_json({"vault": str(seen.root), "files": [_row(file, written) for file in files]})
        return
    if new and not (agreed or asks or dry_run):
        raise click.UsageError(
            "nothing was written: there is no terminal to ask on; --yes writes these files"
        )
    if new and dry_run:
        out.say(f"Nothing was written. Next: {this_command()} init {shlex.quote(str(seen.root))}")
        return
    _print_end(seen.root, new, written, runs=_runs(seen.root, state))


def _root(given: dict[str, Any]) -> Path:
    """Return the vault: the one that is given or around the current folder, else the current folder itself."""
    place = located(given, or_running=False)
    vault = vault_of(place) if place else Path()
    return vault.expanduser().resolve()


def _survey(root: Path, *, quiet: bool) -> Survey:
    from service.usecases.setup import survey  # noqa: PLC0415 - help has to be instant

    with nullcontext() if quiet else out.status("Reading the notes …"):
        return survey(root)


def _choices(seen: Survey, domains: Sequence[str], ignored: Sequence[str] | None) -> Choices:
    """Return the folders that options name; `ignored` is None for nothing, and empty for what should be ignored."""
    from service.usecases.setup import Choices  # noqa: PLC0415 - likewise

    folders = () if ignored is None else ignored or seen.ignorable()
    return Choices(_without_slashes(domains), _without_slashes(folders))


def _without_slashes(folders: Iterable[str]) -> tuple[str, ...]:
    """Return folders as a shell completes them, without the slash at their ends."""
    return tuple(folder.rstrip("/") or folder for folder in folders)


def _ask(seen: Survey, choices: Choices, *, domains: bool, ignored: bool) -> Choices:
    """Ask for what no option decided."""
    from service.usecases.setup import offered_domains, offered_formats  # noqa: PLC0415 - likewise

    if ignored:
        choices = replace(choices, ignored=_ask_ignored(seen.ignorable()))
    left = seen.without(choices.ignored)
    offered = offered_domains(left) if domains else {}
    if offered:
        choices = replace(choices, domains=_ask_domains(offered))
    if choices.documents and (formats := offered_formats(left)):
        files = counted(sum(formats.values()), "other file")
        choices = replace(choices, documents=_is_yes(f"Index {files}, too ({by_format(formats)})?"))
    return choices


def _ask_ignored(counts: Mapping[str, int]) -> tuple[str, ...]:
    folders, more = list(counts)[:_MOST_ASKED], list(counts)[_MOST_ASKED:]
    wanted = [one for one in folders if _is_yes(f"Ignore {one}/ ({counted(counts[one], 'note')})?")]
    if more:
        notes = counted(sum(counts[one] for one in more), "note")
        if _is_yes(f"Ignore {counted(len(more), 'more such folder')} ({notes})?"):
            wanted += more
    return tuple(wanted)


def _ask_domains(offered: Mapping[str, int]) -> tuple[str, ...]:
    out.print(
        "A domain is a folder with its own vocabulary, review queue and search settings. Most vaults need only one."
    )
    for number, (folder, count) in enumerate(offered.items(), start=1):
        out.say(f"  {number}  {folder}/ ({counted(count, 'note')})")
    folders = list(offered)
    while True:
        answer = _answer("Domains of their own, as numbers (Enter: none):").lower()
        words = [] if answer in _NO else answer.replace(",", " ").split()
        if all(word.isdecimal() and 1 <= int(word) <= len(folders) for word in words):
            return tuple(folders[number - 1] for number in dict.fromkeys(map(int, words)))
        out.say(f"Type numbers from 1 to {len(folders)}, as in 1 3, or nothing.")


def _is_yes(question: str) -> bool:
    while (answer := _answer(f"{question} [Y/n]").lower()) not in _ANSWERS:
        out.say("Type y or n.")
    return _ANSWERS[answer]


def _answer(question: str) -> str:
    out.print(question, end=" ", soft_wrap=True)
    return input().strip()


def _print_plan(seen: Survey, choices: Choices, files: Sequence[PlannedFile]) -> None:
    """Print what was found, and each file with all of its text."""
    from service.usecases.setup import LEAST_USES  # noqa: PLC0415 - likewise

    read = "" if seen.read == len(seen.notes) else f"; the tags of the newest {seen.read:,} were read"
    out.say(f"{seen.root}: {counted(len(seen.notes), 'note')}{read}")
    _print_documents(seen.without(choices.ignored))
    if seen.languages.need_multilingual:
        out.say(
            f"{seen.languages.described()}: a domain of such notes gets the multilingual model (docs/models.md)."
        )
    for file in files:
        if file.exists:
            out.say(f"{file.path} exists, and stays as it is.", "dim")
            if file.lacks:
                out.say("Add these lines to it yourself:", "yellow")
                _print_lines(file.lacks)
            continue
        out.say(file.path, "bold")
        _print_lines(file.content)
    if not files:
        out.say(
            f"There is nothing to set up: no tag is on {LEAST_USES} notes or more, and no folder to ignore."
        )


def _print_lines(text: str) -> None:
    for line in text.splitlines():
        out.say(f"    {line}" if line else "")


def _print_documents(seen: Survey) -> None:
    """Print which other files could be indexed, and what to install before they can be read."""
    from pipelines.formats import FORMATS, install_command  # noqa: PLC0415 - likewise

    counts = seen.other_formats()
    if counts:
        files = counted(sum(counts.values()), "other file")
        out.say(f"{files} could be indexed, by `formats:` in _domains.yaml: {by_format(counts)}")
    missing: dict[str, list[str]] = {}
    for form in FORMATS:
        if form.name in counts and (extra := form.lacks):
            missing.setdefault(extra, []).append(form.name)
    for extra, names in missing.items():
        out.say(f"To read {', '.join(names)}: {install_command(extra)}", "yellow")


def _runs(root: Path, state: Path | None) -> bool:
    """Return whether Everindex runs on the vault."""
    try:
        return service_of(options_given(root, state)) is not None
    except NotFoundError:
        return False  # it was never indexed


def _print_end(root: Path, new: Sequence[PlannedFile], written: Sequence[str], *, runs: bool) -> None:
    if written:
        out.say(f"{_files(len(written))} written.", "green")
    elif new:
        out.say("Nothing was written.")
    for file in new:
        if written and file.path not in written:
            out.say(f"{file.path} appeared meanwhile, and stays as it is.")
    if not runs:
        out.say(f"Next: {this_command()} up {shlex.quote(str(root))}")
    elif written:
        out.say("Everindex is running, and uses what was written at once.")


def _files(count: int) -> str:
    return counted(count, "file")


def _row(file: PlannedFile, written: Sequence[str]) -> dict[str, Any]:
    state = "written" if file.path in written else "exists" if file.exists else "planned"
    return {"path": file.path, "content": file.content, "state": state}


# The command that looks for what is wrong with an installation.


if TYPE_CHECKING:
    from service.usecases.doctor import Finding, Installation

_STYLES = {"ok": "green", "warning": "yellow", "failure": "red"}


@app.command()
@folder_argument
@vault_option
@state_option
@port_option
@json_option
def doctor(
    folder: Path | None, vault: Path | None, state: Path | None, port: int | None, *, as_json: bool
) -> None:
    """Check the machine and a vault, and say how to fix each problem.

    Exit code 1 if something fails.
    """
    from service.usecases.doctor import examine  # noqa: PLC0415

    findings = examine(_installation(options_given(folder or vault, state, port)))
    found = list(findings) if as_json else _print_each(findings)
    failed = any(one.level == "failure" for one in found)
    if as_json:
        print_json({"ok": not failed, "findings": [asdict(one) for one in found]})
    if failed:
        sys.exit(1)


def _installation(given: dict[str, Any]) -> Installation:
    """Return what is to be examined; without a vault, that is the machine."""
    from service.usecases.doctor import Installation  # noqa: PLC0415
    from workers.vault_paths import find_vault  # noqa: PLC0415

    try:
        settings = settings_of(located(given))
    except NotRunningError:
        return Installation(settings_of(given))
    try:
        place = find_vault(settings.vault, settings.state)
    except VaultIdError:
        return Installation(settings, settings.vault.expanduser().resolve() if settings.vault else None)
    return Installation(settings, place.root, place)


def _print_each(findings: Iterable[Finding]) -> list[Finding]:
    """Print each finding as soon as it is known, then how many there are; return them."""
    found = []
    for one in findings:
        found.append(one)
        said = f"{one.message}; {one.cure}" if one.cure else one.message
        out.print(f"{one.level:<8}", style=_STYLES[one.level], end="")
        out.say(f"{one.check:<9} {said}")
    counts = [sum(one.level == level for one in found) for level in ("failure", "warning")]
    out.say(f"{counted(counts[0], 'failure')}, {counted(counts[1], 'warning')}")
    return found
