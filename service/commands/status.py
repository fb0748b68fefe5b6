"""The commands that show how far the index is, and bring it up to date: status, reload, retry, confirm-deletions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pipelines.errors import NO_NOTE, NoteNotFoundError
from service.commands.console import err, out, print_json
from service.commands.naming import about_note
from service.commands.terminal import (
    json_option,
    need_service,
    options_given,
    questions_of,
    resources_of,
    service_of,
    state_option,
    vault_option,
    why_behind,
)

app = click.Group()

_PATIENCE_SECONDS = 2.0
"""How long `--wait` waits without a word: a save takes no longer."""


@app.command()
@vault_option
@state_option
@json_option
@click.option("--wait", is_flag=True, help="Return when everything is indexed.")
def status(vault: Path | None, state: Path | None, *, as_json: bool, wait: bool) -> None:
    """Show the state of the vault's index."""
    from service.commands.render import print_status  # noqa: PLC0415

    given = options_given(vault, state)

    def ask() -> dict[str, Any]:
        service = service_of(given)
        if service:
            return {**service.call("GET", "/health"), "running": True}
        questions = questions_of(given)
        return questions.health(questions.resources.queue()).model_dump(mode="json") | {"running": False}

    facts = _when_complete(given, ask) if wait else ask()
    if as_json:
        print_json(facts | {"parked_notes": _parked(given)})
    else:
        behind = None if facts["running"] else why_behind(resources_of(given))
        print_status(out, facts, _parked(given), behind)


def _when_complete(given: dict[str, Any], ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the state once everything is indexed; print meanwhile what may prevent it, such as a paused domain."""
    import re  # noqa: PLC0415 - help has to be instant
    import time  # noqa: PLC0415 - likewise

    from service.runtime.client import is_complete  # noqa: PLC0415 - likewise

    began, told, compared = time.monotonic(), set[str](), False
    while not ((facts := ask())["running"] and is_complete(facts) and compared):
        service = need_service(given)  # without it, nothing is ever indexed
        if is_complete(facts):
            service.call("POST", "/reload")  # a save of this moment may not have been noticed yet
            compared = True
            continue
        for problem in facts["problems"] if time.monotonic() - began > _PATIENCE_SECONDS else ():
            kind = re.sub(r"\d+", "", problem)  # its ages and counts change
            if kind not in told:
                err.say(problem)
            told.add(kind)
        time.sleep(0.2)
    return facts


def _parked(given: dict[str, Any]) -> list[dict[str, str]]:
    """Return the parked notes, from the service if it runs: the caches take longer to open than it to answer."""
    service = service_of(given)
    if service:
        notes = service.call("GET", "/ops/parked.json")["notes"]
        return [{name: note[name] for name in ("path", "domain", "kind", "reason")} for note in notes]
    from pipelines.cache.graph import parked_notes  # noqa: PLC0415
    from pipelines.indexing.status import unforgotten  # noqa: PLC0415

    resources = resources_of(given)
    return [
        {"path": row.path, "domain": domain.slug, "kind": row.kind, "reason": row.reason}
        for domain in resources.domains()
        if resources.state().cache_path(domain.slug).exists()
        for row in unforgotten(parked_notes(resources.reader(domain)), resources.state(), domain.slug)
    ]


@app.command()
@vault_option
@state_option
@json_option
def reload(vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Compare the whole vault with the index now."""
    answer = need_service(options_given(vault, state)).call("POST", "/reload")
    if as_json:
        print_json(answer)
        return
    for slug, found in answer["found"].items():
        out.print(f"{slug}: " + ", ".join(f"{count} {what}" for what, count in found.items()))


@app.command()
@click.argument("path", required=False, help="A parked note; default: all of them.")
@vault_option
@state_option
def retry(path: str | None, vault: Path | None, state: Path | None) -> None:
    """Try parked notes again."""
    given = options_given(vault, state)
    service = need_service(given)

    def ask(found: str | None) -> Any:
        return service.call("POST", "/retry", path=found)

    try:
        answer = about_note(given, path, ask) if path else ask(None)
    except NoteNotFoundError as error:
        if error.why["state"] in NO_NOTE:
            raise
        raise NoteNotFoundError(f"{error}; only a parked note can be tried again", error.why) from None
    for one in answer["paths"]:
        out.say(f"{one} is tried again")
    if not answer["paths"]:
        out.print("No note is parked.")


@app.command("confirm-deletions")
@vault_option
@state_option
def confirm_deletions(vault: Path | None, state: Path | None) -> None:
    """Apply deletions that were held because many notes vanished at once."""
    from service.commands.progress import IndexProgress  # noqa: PLC0415
    from service.runtime.lock import only_one  # noqa: PLC0415
    from service.usecases.indexing import index_once  # noqa: PLC0415

    given = options_given(vault, state)
    service = service_of(given)
    if service:
        for slug, found in service.call("POST", "/confirm-deletions")["found"].items():
            out.print(f"{slug}: {found['removed']} removed")
        return
    resources = resources_of(given)
    with only_one(resources.place.state), IndexProgress(out) as bar:
        lines = index_once(resources, bar.show, confirmed=True)
    for line in lines:
        out.say(line)
