"""Commands about tags: what is proposed, promotion, renames, the log and the way back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from service.commands.terminal import (
    Commands,
    json_option,
    need_service,
    options_given,
    out,
    print_json,
    state_option,
    vault_option,
)

app = click.Group()
domain_option = click.option("--domain", help="This domain alone.")


@app.command()
@domain_option
@vault_option
@state_option
@json_option
def promote(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Apply what is ticked in the review queues now."""
    answer = need_service(options_given(vault, state)).call("POST", "/promote", domain=domain)
    if as_json:
        print_json(answer)
        return
    for slug, done in _worked(answer):
        for path, tag in done["applied"]:
            out.print(f"{slug}: {tag} -> {path}", markup=False, soft_wrap=True)
        for path, tag, why in done["refused"]:
            out.print(f"{slug}: {tag} was not given to {path}: {why}", markup=False, soft_wrap=True)
        for path in done["put_off"]:
            out.print(f"{slug}: {path} is being written; its tags follow", markup=False, soft_wrap=True)
        if not done["applied"] and not done["refused"] and not done["put_off"]:
            out.print(f"{slug}: nothing to apply", markup=False)


def _worked(answer: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return what each domain's worker did; print what could not be done, and fail."""
    failed = {slug: done["error"] for slug, done in answer["domains"].items() if "error" in done}
    for slug, why in failed.items():
        out.print(f"{slug}: {why}", markup=False, soft_wrap=True)
    worked = [(slug, done) for slug, done in answer["domains"].items() if slug not in failed]
    if failed and not worked:
        sys.exit(1)
    return worked


tags = Commands("tags", help="Tags: what is proposed, promoted, renamed, and the way back.")
app.add_command(tags)


@tags.command(name="list")
@domain_option
@vault_option
@state_option
@json_option
def list_proposals(domain: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List the tags that wait for a decision."""
    answer = need_service(options_given(vault, state)).call("GET", "/proposals", domain=domain, limit=1000)
    if as_json:
        print_json(answer)
        return
    last = None
    for one in answer["proposals"]:
        if one["path"] != last:
            out.print(one["path"], markup=False, style="bold", soft_wrap=True)
            last = one["path"]
        group = f" ({one['group']})" if one["group"] else ""
        out.print(f"  {one['tag']}{group}  {one['confidence']:.0%} {one['proposer']}", markup=False)
    if not answer["proposals"]:
        out.print("nothing waits")
    spent = answer["spent_today"]
    if spent["notes"]:
        out.print(f"sent today: {spent['notes']:g} notes, {spent['dollars']:.4f} dollars")


@tags.command()
@click.argument("path", required=False, help="A note, as the vault has it.")
@vault_option
@state_option
@click.option("--all-untagged", is_flag=True, help="Every note without a tag.")
@domain_option
def propose(
    path: str | None, vault: Path | None, state: Path | None, *, all_untagged: bool, domain: str | None
) -> None:
    """Ask for proposals for a note, or for every note without a tag."""
    if (path is None) != all_untagged:
        raise click.BadParameter("name a note, or give --all-untagged")
    answer = need_service(options_given(vault, state)).call(
        "POST", "/proposals/ask", path=path, domain=domain
    )
    out.print(f"{len(answer['paths'])} notes will be looked at; `everindex tags list` shows what is proposed")


@tags.command()
@domain_option
@vault_option
@state_option
@click.option("--dry-run", is_flag=True, help="Only show each change.")
@json_option
def rename(
    domain: str | None, vault: Path | None, state: Path | None, *, dry_run: bool, as_json: bool
) -> None:
    """Apply the renames of the taxonomies to every note of their domains."""
    answer = need_service(options_given(vault, state)).call(
        "POST", "/apply-renames", domain=domain, dry_run=dry_run
    )
    if as_json:
        print_json(answer)
        return
    for slug, done in _worked(answer):
        _print_renames(slug, done)


def _print_renames(slug: str, done: dict[str, Any]) -> None:
    pairs = ", ".join(f"{old} -> {new}" for old, new in done.get("renames", []))
    out.print(f"{slug}: {pairs or 'no renames'}", markup=False, soft_wrap=True)
    for change in done.get("changes", []):
        out.print(f"  {change['path']}", markup=False, soft_wrap=True)
        for old, new in change["lines"]:
            out.print(f"    - {old}\n    + {new}", markup=False, soft_wrap=True)
    for path in done.get("changed", []):
        out.print(f"  changed: {path}", markup=False, soft_wrap=True)
    for path, why in done.get("refused", []):
        out.print(f"  refused: {path}: {why}", markup=False, soft_wrap=True)
    if done.get("refused"):
        out.print("  nothing is renamed until the refused notes are mended", markup=False)


@tags.command()
@click.argument("path", required=False, help="A note.")
@vault_option
@state_option
@json_option
def log(path: str | None, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """List what was changed in notes, newest first."""
    changes = need_service(options_given(vault, state)).call("GET", "/changes", path=path)
    if as_json:
        print_json(changes)
        return
    for one in changes:
        undone = " (taken back)" if one["undone_at"] else ""
        out.print(
            f"{one['id']:>5}  {one['at'][:19]}  {one['action']}{undone}  {', '.join(one['tags'])}  {one['path']}",
            markup=False,
            soft_wrap=True,
        )
    if not changes:
        out.print("no note was changed")


@tags.command()
@click.argument(
    "number",
    required=False,
    type=int,
    metavar="[ID]",
    help="A change of the log; default: the last promotion.",
)
@vault_option
@state_option
def undo(number: int | None, vault: Path | None, state: Path | None) -> None:
    """Take a promotion back: the note is as it was before."""
    answer = need_service(options_given(vault, state)).call("POST", "/changes/undo", id=number)
    for _, done in _worked(answer):
        out.print(f"{done['path']} no longer has {', '.join(done['tags'])}", markup=False, soft_wrap=True)
