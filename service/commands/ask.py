"""The commands that ask the service; those that only ask do without one, from the caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from service.commands.terminal import (
    json_option,
    need_service,
    options_given,
    out,
    print_json,
    questions_of,
    service_of,
    settings_of,
    state_option,
    vault_option,
)

app = click.Group()


@app.command()
@click.argument("query", nargs=-1, required=True, help="A question, or exact words.")
@click.option("-k", type=click.IntRange(1, 200), default=10, help="How many notes.")
@click.option("--domain", help="Search this domain alone.")
@click.option(
    "--filter",
    "-f",
    "only",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only such notes: tag=x, folder=y, has=task ...",
)
@vault_option
@state_option
@click.option("--explain", is_flag=True, help="Show what each layer made of each note.")
@json_option
def search(
    query: tuple[str, ...],
    k: int,
    domain: str | None,
    only: tuple[str, ...],
    vault: Path | None,
    state: Path | None,
    *,
    explain: bool,
    as_json: bool,
) -> None:
    """Find notes."""
    from service.render import print_search  # noqa: PLC0415

    question, given = " ".join(query), options_given(vault, state)
    filters = [*_pairs(only), *([("domain", domain)] if domain else [])]
    parsed = {}
    if filters:
        from pipelines.retrieval.filters import parse_filters  # noqa: PLC0415 - a tenth of a plain search's time

        parsed["filters"] = parse_filters(filters)
    service = service_of(given)
    if service:
        answer = service.call("GET", "/search", filters, q=question, k=k, explain=explain)
    else:
        answer = questions_of(given).search(question, k, **parsed, explain=explain).model_dump(mode="json")
    if as_json:
        print_json(answer)
    else:
        print_search(out, answer)


def _pairs(only: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [one.partition("=") for one in only]
    for name, equals, _ in pairs:
        if not equals:
            raise click.BadParameter(f"{name!r} is no filter; write NAME=VALUE, as in tag=recipes")
    return [(name, value) for name, _, value in pairs]


@app.command()
@click.argument("path")
@vault_option
@state_option
@json_option
def node(path: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Show a note as it is indexed: its row, links and chunks."""
    from service.render import print_node  # noqa: PLC0415

    given = options_given(vault, state)
    service = service_of(given)
    answer = (
        service.call("GET", f"/node/{_in_url(path)}")
        if service
        else questions_of(given).node(path).model_dump(mode="json")
    )
    if as_json:
        print_json(answer)
    else:
        print_node(out, answer)


@app.command()
@click.argument("path")
@vault_option
@state_option
@json_option
def why(path: str, vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Say whether a note is indexed, pending, parked, ignored or unknown, and why."""
    given = options_given(vault, state)
    service = service_of(given)
    answer = service.call("GET", f"/why/{_in_url(path)}") if service else questions_of(given).why(path)
    if as_json:
        print_json(answer)
    else:
        reason = f": {answer['reason']}" if answer["reason"] else ""
        out.print(f"{answer['path']} is {answer['state']}{reason}", markup=False, soft_wrap=True)


def _in_url(path: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415

    return quote(path)


@app.command()
@vault_option
@state_option
@json_option
@click.option("--wait", is_flag=True, help="Return when nothing is owed.")
def status(vault: Path | None, state: Path | None, *, as_json: bool, wait: bool) -> None:
    """Say how the vault's index stands."""
    import time  # noqa: PLC0415

    from service.render import print_status  # noqa: PLC0415

    given = options_given(vault, state)

    def ask() -> dict[str, Any]:
        service = service_of(given)
        facts: dict[str, Any] = (
            service.call("GET", "/health")
            if service
            else questions_of(given).health().model_dump(mode="json")
        )
        return facts | {"running": service is not None}

    facts = ask()
    while wait and (facts["pending"] or facts["vectors_pending"] or not facts["last_reconcile"]):
        time.sleep(0.2)
        facts = ask()
    if as_json:
        print_json(facts | {"parked_notes": _parked(given)})
    else:
        print_status(out, facts, _parked(given))


def _parked(given: dict[str, Any]) -> list[dict[str, str]]:
    from pipelines.status import unforgotten  # noqa: PLC0415
    from pipelines.store.overview import parked_notes  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    service = service_of(given)
    named = {"vault": service.root, "state": service.state} if service else given
    resources = Resources(settings_of(named))
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
@click.argument("path", required=False, help="A parked note; none: all of them.")
@vault_option
@state_option
def retry(path: str | None, vault: Path | None, state: Path | None) -> None:
    """Try parked notes again."""
    given = {"path": path} if path else {}
    answer = need_service(options_given(vault, state)).call("POST", "/retry", **given)
    for one in answer["paths"]:
        out.print(f"{one} is tried again", markup=False, soft_wrap=True)
    if not answer["paths"]:
        out.print("No note is parked.")


@app.command("confirm-deletions")
@vault_option
@state_option
def confirm_deletions(vault: Path | None, state: Path | None) -> None:
    """Apply deletions that were held because so many notes vanished at once."""
    from service.lock import only_one  # noqa: PLC0415
    from service.oneshot import index_once  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from workers.resources import Resources  # noqa: PLC0415

    given = options_given(vault, state)
    service = service_of(given)
    if service:
        for slug, found in service.call("POST", "/confirm-deletions")["found"].items():
            out.print(f"{slug}: {found['removed']} removed")
        return
    resources = Resources(settings_of(given))
    with only_one(resources.place.state), IndexProgress(out) as bar:
        lines = index_once(resources, bar.show, confirmed=True)
    for line in lines:
        out.print(line, soft_wrap=True)
