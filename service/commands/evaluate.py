"""`everindex eval`: how good the answers to the user's own questions are, and what each layer adds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.commands.console import err, out, print_json
from service.commands.terminal import (
    json_option,
    options_given,
    questions_of,
    state_option,
    vault_option,
)
from service.usecases.phrases import counted

if TYPE_CHECKING:
    from rich.table import Table

    from service.usecases.evaluation import Judged

app = click.Group()

_MOST_NAMED = 5


@app.command("eval")
@vault_option
@state_option
@click.option(
    "--without",
    metavar="LAYER[,LAYER]",
    help="Measure what each of these layers adds, as in decay,graph (a wrong name lists all layers).",
)
@click.option(
    "--compare",
    "settings",
    multiple=True,
    metavar="SETTING=VALUE",
    help="Measure what a setting of _domains.yaml would add, as in lexical.weight=0.5 (may be repeated).",
)
@json_option
def evaluate(
    vault: Path | None, state: Path | None, without: str | None, settings: tuple[str, ...], *, as_json: bool
) -> None:
    """Measure the answers to the judged questions in the vault's _queries.yaml.

    Without options: the measures after each step of an answer, and the questions that lost most.
    """
    from pipelines.search.evaluate import read_judged  # noqa: PLC0415
    from service.usecases.evaluation import compare, measure_steps, not_indexed  # noqa: PLC0415

    given, layers = options_given(vault, state), _layers(without)
    questions = questions_of(given)
    judged: Judged = {query: (query, of) for query, of in read_judged(questions.resources.root).items()}
    missing = not_indexed(questions, judged)
    with err.status(f"Asking {counted(len(judged), 'question')} ..."):
        if layers or settings:
            answer = asdict(compare(lambda: questions_of(given), judged, layers, settings))
        else:
            answer = asdict(measure_steps(questions, judged))
    if as_json:
        print_json(answer | {"not_indexed": missing})
        return
    if layers or settings:
        _print_changes(answer)
    else:
        _print_steps(answer)
    _print_missing(missing)


def _layers(given: str | None) -> list[str]:
    """Return the named layers. Raises BadParameter for an unknown one."""
    if given is None:
        return []
    from pipelines.search.ablation import WITHOUT  # noqa: PLC0415

    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in WITHOUT:
            raise click.BadParameter(f"{name!r} is not a layer; the layers are {', '.join(WITHOUT)}")
    return list(dict.fromkeys(names))


def _print_steps(answer: dict[str, Any]) -> None:
    from pipelines.search.ablation import RETRIEVERS  # noqa: PLC0415

    table = _table("step", _asked(answer))
    last = list(answer["means"])[-1]
    for name, means in answer["means"].items():
        step = f"{name} alone" if name in RETRIEVERS else "both, fused" if name == "fused" else f"then {name}"
        table.add_row(step, *map(_number, means.values()), style="bold" if name == last else None)
    out.print(table)
    out.print("The last step is the answer of a search.")
    if answer["losses"]:
        out.print("\nThe questions that lost most from one step to the next (nDCG@10):")
    for loss in answer["losses"]:
        out.say(f"  {-loss['lost']:+.3f}  {loss['before']} → {loss['after']}  {loss['query']}")


def _print_changes(answer: dict[str, Any]) -> None:
    table = _table("answers", f"{_asked(answer)} in {counted(answer['runs'], 'cold run')}")
    table.add_row("as they are", *map(_number, answer["as_it_is"].values()), style="bold")
    for change in answer["changes"]:
        name = f"without {change['name']}" if change["kind"] == "without" else change["name"]
        table.add_row(name, *map(_number, change["means"].values()))
    out.print(table)
    for change in answer["changes"]:
        out.print(f"{change['name']}: {_verdict(change['verdict'], change['kind'])}")


def _verdict(verdict: dict[str, Any] | None, kind: str) -> str:
    if verdict is None:
        return "the runs differ, so no verdict"
    adds = "adds" if kind == "without" else "would add"
    return (
        f"{verdict['word']}. It {adds} {verdict['gain']:+.3f} to nDCG@10 (95 % interval {verdict['low']:+.3f} to"
        f" {verdict['high']:+.3f}, p = {verdict['p']:.3f}; {verdict['differing']} of"
        f" {counted(verdict['questions'], 'question differs', 'questions differ')})"
    )


def _table(first: str, title: str) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table(first, title=title)
    for measure in ("nDCG@10", "recall@10", "recall@60", "MRR"):
        table.add_column(measure, justify="right")
    return table


def _asked(answer: dict[str, Any]) -> str:
    return f"{counted(answer['questions'], 'question')}, asked of all domains"


def _number(value: float) -> str:
    return f"{value:.3f}"


def _print_missing(missing: list[str]) -> None:
    if missing:
        named = ", ".join(missing[:_MOST_NAMED]) + (" ..." if len(missing) > _MOST_NAMED else "")
        out.say(
            f"\n{counted(len(missing), 'note')} of _queries.yaml not indexed: {named}"
            " (`everindex why NOTE` says why)",
            "yellow",
        )
