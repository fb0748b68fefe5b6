"""The commands about tags: proposals, promotion, renames, log and undo."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from pipelines.errors import NoteNotFoundError, NotFoundError
from service.cli.console import complain, out, print_json
from service.cli.naming import about_note
from service.cli.options import (
    Commands,
    json_option,
    need_service,
    options_given,
    resources_of,
    state_option,
    vault_option,
)
from service.usecases.text import counted, second

app = click.Group()
domain_option = click.option("--domain", help="Only this domain.")
_MOST_NAMED = 5
_UNDOABLE = ("promoted", "renamed", "renaming", "replaced")


def _worked(answer: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each domain's worker did; print what failed, and exit with an error in the end if anything did."""
    for slug, done in answer["domains"].items():
        if "error" in done:
            complain(f"{slug}: {done['error']}")
        else:
            yield slug, done
    _fail_with(answer)


def _fail_with(answer: dict[str, Any]) -> None:
    """Exit with an error if anything failed in a domain."""
    if any(done.get("error") or done.get("refused") for done in answer["domains"].values()):
        sys.exit(1)


tags = Commands("tags", help="List, propose, apply and rename tags; list and undo changes.")
app.add_command(tags)


@tags.command(name="list")
@domain_option
@vault_option
@state_option
@json_option
def list_proposals(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the tags that wait for a decision, and the notes for which none was found."""
    answer = need_service(options_given(vault, state)).call("GET", "/proposals", domain=domain, limit=1000)
    if as_json:
        print_json(answer)
        return
    by_note: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in answer["proposals"]:
        by_note.setdefault((one["domain"], one["path"]), []).append(one)
    for (_, path), proposed in by_note.items():
        out.say(path, style="bold")
        for one in proposed:
            group = f" ({one['group']})" if one["group"] else ""
            out.print(f"  {one['tag']}{group}  {one['confidence']:.0%} {one['proposer']}")
    if not answer["proposals"]:
        out.print("nothing waits")
    _say_why_none(answer["nothing"])
    if more := answer["nothing_count"] - len(answer["nothing"]):
        out.print(f"nor for {counted(more, 'more note')}")
    if aside := answer.get("set_aside"):
        waits = counted(aside, "tag waits", "tags wait")
        out.say(f"{waits} for notes that no domain of _domains.yaml contains, until one does again")
    spent = answer["spent_today"]
    if spent["notes"]:
        out.print(f"sent today: {counted(int(spent['notes']), 'note')}, {spent['dollars']:.4f} dollars")


def _say_why_none(notes: Sequence[dict[str, Any]]) -> None:
    """Print for which notes nothing was proposed, and each reason once."""
    by_reason: dict[str, list[str]] = {}
    for one in notes:
        by_reason.setdefault(one["reason"] or "", []).append(one["path"])
    for reason, paths in by_reason.items():
        others = len(paths) - _MOST_NAMED
        named = ", ".join(paths[:_MOST_NAMED]) + (
            f" and {counted(others, 'more note')}" if others > 0 else ""
        )
        out.say(f"nothing was proposed for {named}{': ' if reason else ''}{reason}")


@tags.command()
@click.argument("names", nargs=-1, metavar="[NOTE]...", help="Paths of notes in the vault, or their titles.")
@vault_option
@state_option
@click.option("--all-untagged", is_flag=True, help="Every note without a tag.")
@domain_option
def propose(
    names: tuple[str, ...], vault: Path | None, state: Path | None, *, all_untagged: bool, domain: str | None
) -> None:
    """Request proposals for some notes, or for every note without a tag."""
    if bool(names) == all_untagged:
        raise click.UsageError("give notes or --all-untagged")
    service = need_service(options_given(vault, state))

    def ask(found: str | None) -> Any:
        return service.call("POST", "/proposals/ask", path=found, domain=domain)

    asked, problems, unknown = set[str](), dict[str, None](), False
    for name in names or [None]:
        try:
            answer = ask(None) if name is None else about_note(service, name, ask)
        except NoteNotFoundError as error:
            if len(names) == 1:
                raise
            complain(str(error))
            unknown = True
        else:
            asked.update(answer["paths"])
            problems.update(dict.fromkeys(answer["problems"]))
    if asked or not (problems or unknown):
        out.print(f"proposals requested for {counted(len(asked), 'note')}; `everindex tags list` shows them")
    for problem in problems:
        out.print(problem, soft_wrap=True)
    if unknown:
        sys.exit(1)


@tags.command(name="apply")
@domain_option
@vault_option
@state_option
@json_option
def apply_ticked(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Apply what is ticked in the review queues now."""
    answer = need_service(options_given(vault, state)).call("POST", "/promote", domain=domain)
    if as_json:
        print_json(answer)
        return
    for slug, done in _worked(answer):
        for path, tag in done["applied"]:
            out.say(f"{slug}: {tag} -> {path}")
        for path, tag, why in done["refused"]:
            out.say(f"{slug}: {tag} was not added to {path}: {why}")
        for path in done["put_off"]:
            out.say(f"{slug}: {path} is being written; its tags are added later")
        if done["rejected"]:
            out.say(f"{slug}: {counted(done['rejected'], 'tag')} rejected")
        if not any(done[what] for what in ("applied", "refused", "put_off", "rejected")):
            out.print(f"{slug}: nothing to apply")


@tags.command()
@domain_option
@vault_option
@state_option
@json_option
def missing(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List phrases that many notes share and no tag covers, with a few of the notes."""
    found = need_service(options_given(vault, state)).call("GET", "/missing-tags", domain=domain)
    if as_json:
        print_json(found)
        return
    for one in found["missing"]:
        out.say(f"{one['phrase']}  {counted(one['notes'], 'note')} of {one['domain']}", style="bold")
        for path in one["examples"]:
            out.say(f"  {path}")
    if not found["missing"]:
        out.print("nothing that many notes share lacks a tag")


@tags.command()
@click.argument("names", nargs=-1, metavar="[OLD NEW]", help="The tag, and its new name.")
@domain_option
@vault_option
@state_option
@click.option("--dry-run", is_flag=True, help="Only show each change.")
@json_option
def rename(
    names: tuple[str, ...],
    domain: str | None,
    vault: Path | None,
    state: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Rename a tag in every note that has it, and in the vocabulary.

    In all domains or in none. Without OLD and NEW, the renames that you wrote in the vocabularies (`## Renames`) are
    applied.
    """
    if names and len(names) != len(("old", "new")):
        raise click.UsageError("give the tag and its new name, or neither")
    given = options_given(vault, state)
    service, planned = need_service(given), dict[str, dict[str, Any]]()
    if names:
        planned = _write_rename(given, names, domain, dry_run=dry_run)
        domain = next(iter(planned)) if len(planned) == 1 else domain
    if planned and (dry_run or any(one["refused"] for one in planned.values())):
        answer = {"domains": planned}
    else:
        answer = service.call("POST", "/apply-renames", domain=domain, dry_run=dry_run)
    if as_json:
        print_json(answer)
        _fail_with(answer)
        return
    for slug, done in _worked(answer):
        _print_renames(slug, done)


def _write_rename(
    given: dict[str, Any], names: Sequence[str], domain: str | None, *, dry_run: bool
) -> dict[str, dict[str, Any]]:
    """Write a rename into the vocabularies, from which the service applies it; return what it changes by domain."""
    from service.usecases.audience import named_domains  # noqa: PLC0415 - help has to be instant
    from workers.renames import write_rename  # noqa: PLC0415 - likewise
    from workers.tag_context import TaggingContext  # noqa: PLC0415 - likewise

    resources, (old, new) = resources_of(given), [name.removeprefix("#") for name in names]
    return write_rename(
        TaggingContext(resources), named_domains(resources, domain), old, new, dry_run=dry_run
    )


def _print_renames(slug: str, done: dict[str, Any]) -> None:
    pairs = ", ".join(f"{old} -> {new}" for old, new in done.get("renames", []))
    out.say(f"{slug}: {pairs or 'no renames'}")
    for change in done.get("changes", []):
        out.say(f"  {change['path']}")
        for old, new in change["lines"]:
            out.say(f"    - {old}\n    + {new}")
    for path in done.get("changed", []):
        out.say(f"  changed: {path}")
    for path, why in done.get("refused", []):
        out.say(f"  refused: {path}: {why}")
    if done.get("refused"):
        out.say(
            "  nothing is renamed until you correct these notes, or ignore them with `everindex ignore PATH`"
        )
    elif done.get("waits_for"):
        out.say(
            f"  nothing is renamed until it can be in {', '.join(done['waits_for'])}, too; --domain names one"
        )
    elif done.get("change"):
        out.print(f"  `everindex tags undo {done['change']}` undoes all of it")


@tags.command()
@click.argument("path", required=False, metavar="[NOTE]", help="A note's path in the vault, or its title.")
@vault_option
@state_option
@json_option
def log(path: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the changes made to notes, newest first."""
    service = need_service(options_given(vault, state))
    changes = service.call("GET", "/changes", path=path)
    if path is not None and not changes:

        def ask(found: str) -> Any:
            service.call("GET", f"/node/{quote(found)}")
            return service.call("GET", "/changes", path=found)

        changes = about_note(service, path, ask)
    if as_json:
        print_json(changes)
        return
    for one in changes:
        undone = " (undone)" if one["undone_at"] else ""
        out.say(
            f"{one['id']:>5}  {second(one['at'])}  {one['action']}{undone}  {', '.join(one['tags'])}  {_where(one)}",
        )
        for origin in one.get("proposed", ()):  # a service that was started before an upgrade has none
            why = f": {origin['rationale']}" if origin["rationale"] else ""
            out.say(f"{'':>7}{origin['tag']} by {origin['proposer']}{why}", "dim")
    if not changes:
        out.print("no note was changed" if path is None else "the note was not changed")


def _where(change: dict[str, Any]) -> str:
    """Return the files that a change affected."""
    if not change["notes"]:
        return str(change["path"])
    return f"{change['notes']} {'note' if change['notes'] == 1 else 'notes'} and {change['path']}"


def _can_be_undone(change: dict[str, Any]) -> bool:
    return change["action"] in _UNDOABLE and not change["undone_at"]


def _way_out(earlier: list[dict[str, Any]]) -> str:
    """Return how to undo the change before the last one, which would be chosen again and again without an id."""
    if not earlier:
        return ""
    one = earlier[0]
    what = f"{one['action']} {', '.join(one['tags'])} in {_where(one)}"
    return f"; `everindex tags undo {one['id']}` undoes the change before it ({what}), `everindex tags log` lists all"


def _run_of(change: dict[str, Any], changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is undone with a change: a run of renames in several domains has one time."""
    if change["action"] in ("promoted", "replaced"):
        return [change]
    return [one for one in changes if one["at"] == change["at"] and not one["undone_at"]] or [change]


@tags.command()
@click.argument(
    "number",
    required=False,
    type=int,
    metavar="[ID]",
    help="The id of a change in the log; default: the last change of tags that is not undone.",
)
@vault_option
@state_option
def undo(number: int | None, vault: Path | None, state: Path | None) -> None:
    """Undo a promotion, a run of renames or a program's replacing its note; the notes become as they were before."""
    service = need_service(options_given(vault, state))
    changes = service.call("GET", "/changes", limit=1000)
    undoable = (one for one in changes if one["action"] != "replaced" and _can_be_undone(one))
    wanted = [one for one in changes if one["id"] == number] if number else list(undoable)
    way_out, run = "", list[dict[str, Any]]()
    if wanted:
        run = _run_of(wanted[0], changes) if _can_be_undone(wanted[0]) else []
        way_out = "" if number else _way_out([one for one in wanted if one not in run])
        number = wanted[0]["id"]
        for one in run:
            what = (
                f"{one['id']}: {one['action']} {', '.join(one['tags'])} in {_where(one)}, {second(one['at'])}"
            )
            out.say(f"undoing {what}")
    elif number is None:
        raise NotFoundError("there is nothing to undo; `everindex tags log` lists the changes")
    answer = service.call("POST", "/changes/undo", id=number)
    for done in answer["domains"].values():
        if "error" in done:
            done["error"] += way_out
    for _, done in _worked(answer):
        for path in done["restored"]:
            out.say(f"  restored: {path}")
        for path, why in done["left"]:
            out.say(f"  left alone: {path}: {why}")
    if any(one["action"] in ("renamed", "renaming") for one in run):
        out.say(
            "  the vocabulary lists the renames again: `everindex tags rename` applies them, or remove the lines"
        )
