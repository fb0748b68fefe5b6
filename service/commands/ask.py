"""The commands that ask the service; those that only ask do without one, from the caches."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.commands.terminal import (
    JsonOption,
    StateOption,
    VaultOption,
    need_service,
    options_given,
    out,
    print_json,
    questions_of,
    service_of,
    settings_of,
)

app = typer.Typer()


@app.command()
def search(
    query: Annotated[list[str], typer.Argument(help="A question, or exact words.")],
    k: Annotated[int, typer.Option("-k", min=1, max=200, help="How many notes.")] = 10,
    domain: Annotated[str | None, typer.Option(help="Search this domain alone.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", "-f", metavar="NAME=VALUE", help="Only such notes: tag=x, folder=y, has=task ..."
        ),
    ] = None,
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each layer made of each note.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find notes."""
    from service.render import print_search  # noqa: PLC0415

    question, given = " ".join(query), options_given(vault, state)
    filters = [*_pairs(only or []), *([("domain", domain)] if domain else [])]
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


def _pairs(only: list[str]) -> list[tuple[str, str]]:
    pairs = [one.partition("=") for one in only]
    for name, equals, _ in pairs:
        if not equals:
            raise typer.BadParameter(f"{name!r} is no filter; write NAME=VALUE, as in tag=recipes")
    return [(name, value) for name, _, value in pairs]


@app.command()
def node(
    path: str, vault: VaultOption = None, state: StateOption = None, *, as_json: JsonOption = False
) -> None:
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
def why(
    path: str, vault: VaultOption = None, state: StateOption = None, *, as_json: JsonOption = False
) -> None:
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
def status(
    vault: VaultOption = None,
    state: StateOption = None,
    *,
    as_json: JsonOption = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing is owed.")] = False,
) -> None:
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
def reload(vault: VaultOption = None, state: StateOption = None, *, as_json: JsonOption = False) -> None:
    """Compare the whole vault with the index now."""
    answer = need_service(options_given(vault, state)).call("POST", "/reload")
    if as_json:
        print_json(answer)
        return
    for slug, found in answer["found"].items():
        out.print(f"{slug}: " + ", ".join(f"{count} {what}" for what, count in found.items()))


@app.command()
def retry(
    path: Annotated[str | None, typer.Argument(help="A parked note; none: all of them.")] = None,
    vault: VaultOption = None,
    state: StateOption = None,
) -> None:
    """Try parked notes again."""
    given = {"path": path} if path else {}
    answer = need_service(options_given(vault, state)).call("POST", "/retry", **given)
    for one in answer["paths"]:
        out.print(f"{one} is tried again", markup=False, soft_wrap=True)
    if not answer["paths"]:
        out.print("No note is parked.")


@app.command("confirm-deletions")
def confirm_deletions(vault: VaultOption = None, state: StateOption = None) -> None:
    """Apply deletions that were held because so many notes vanished at once."""
    from service.oneshot import index_once  # noqa: PLC0415
    from service.progress import IndexProgress  # noqa: PLC0415
    from service.watch import only_one  # noqa: PLC0415
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
