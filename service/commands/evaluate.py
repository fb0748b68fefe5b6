"""`everindex eval`: how good the answers to a person's own questions are, layer by layer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.commands.terminal import (
    json_option,
    options_given,
    out,
    print_json,
    questions_of,
    state_option,
    vault_option,
)

if TYPE_CHECKING:
    from service.questions import Questions

app = click.Group()

_MOST_LOSSES = 10


@app.command("eval")
@vault_option
@state_option
@json_option
def evaluate(vault: Path | None, state: Path | None, *, as_json: bool) -> None:
    """Measure the answers to the judged questions in the vault's _queries.yaml, layer by layer."""
    answer = _measure(questions_of(options_given(vault, state)))
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _measure(questions: Questions) -> dict[str, Any]:
    """Ask each question in every domain that has a note which should be found."""
    from pipelines.retrieval.evaluate import complete, losses, read_judged, summarise  # noqa: PLC0415

    answers = {}
    registry = questions.resources.registry()
    for query, grades in read_judged(questions.resources.root).items():
        owners = {path: domain.slug for path in grades if (domain := registry.owner(path))}
        for slug in dict.fromkeys(owners.values()):
            own = {path: grade for path, grade in grades.items() if owners.get(path) == slug}
            answers[query if len(set(owners.values())) == 1 else f"{query} [{slug}]"] = (
                own,
                complete(questions.layers(query, slug)),
            )
    means = summarise(list(answers.values()))
    return {
        "questions": len(answers),
        "layers": {name: asdict(figures) for name, figures in means.items()},
        "losses": [asdict(loss) for loss in losses(answers, _MOST_LOSSES)],
    }


def _print(answer: dict[str, Any]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        "layer", "nDCG@10", "recall@10", "recall@60", "MRR", title=f"{answer['questions']} questions"
    )
    for name, figures in answer["layers"].items():
        table.add_row(name, *(f"{value:.3f}" for value in figures.values()))
    out.print(table)
    if answer["losses"]:
        out.print("What lost most from one layer to the next (nDCG@10):")
    for loss in answer["losses"]:
        out.print(
            f"  {loss['lost']:.3f}  {loss['before']} -> {loss['after']}  {loss['query']}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
