"""The commands that ask the vault, and print the answer as it comes, each quotation checked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from pipelines.errors import ChatNotFoundError
from service.cli.console import complain, err, out, print_json
from service.cli.options import (
    PATH,
    json_option,
    need_service,
    options_given,
    question_of,
    state_option,
    vault_option,
)
from service.usecases.text import counted

if TYPE_CHECKING:
    from service.runtime.client import Service
    from service.schemas.chat import ChatRequest

app = click.Group()
_STYLES = {"quoted": "", "cited": "", "own": "dim", "unverified": "yellow", "judgement": "bold"}
_MARKS = {True: ("✓", "green"), False: ("✗ not in the notes", "red")}


def _chat_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a conversation; it is called with them as `more`, fields of a request."""

    @click.option(
        "--folder", "folders", multiple=True, metavar="FOLDER", help="Answer from this folder alone."
    )
    @click.option(
        "--tag", "tags", multiple=True, metavar="TAG", help="Answer from notes with this tag alone."
    )
    @click.option(
        "--note", "notes", multiple=True, metavar="NOTE", help="Answer from this note alone, by its path."
    )
    @click.option("--file", "files", multiple=True, type=PATH, help="Add a text file to the question.")
    @click.option("--continue", "chat", metavar="ID", help="Go on with an earlier conversation.")
    @wraps(command)
    def with_chat(
        folders: tuple[str, ...],
        tags: tuple[str, ...],
        notes: tuple[str, ...],
        files: tuple[Path, ...],
        chat: str | None,
        **others: Any,
    ) -> None:
        given = (("folder", folders), ("tag", tags), ("note", notes))
        scope = [{"kind": kind, "value": one} for kind, values in given for one in values] or None
        command(more={"scope": scope, "files": list(map(_added, files)) or None, "chat": chat}, **others)

    return with_chat


def _added(file: Path) -> dict[str, str]:
    """Return a file as a request has it. Raises BadParameter."""
    try:
        return {"name": file.name, "text": file.read_text(encoding="utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file} cannot be read as text ({error})") from error


def _request(question: str, more: Mapping[str, Any]) -> ChatRequest:
    """Return a request. Raises BadParameter."""
    from pydantic import ValidationError  # noqa: PLC0415 - help has to be instant

    from service.schemas.chat import ChatRequest  # noqa: PLC0415 - likewise

    try:
        return ChatRequest.model_validate({"question": question, **more})
    except ValidationError as error:
        raise click.BadParameter("; ".join(one["msg"] for one in error.errors())) from error


@app.command()
@click.argument("question", nargs=-1, required=True, help="A question, in your own words.")
@_chat_options
@vault_option
@state_option
@json_option
def ask(
    question: tuple[str, ...],
    more: dict[str, Any],
    vault: Path | None,
    state: Path | None,
    *,
    as_json: bool,
) -> None:
    """Have a model answer from your notes; each quotation is checked.

    The setting `chat` names the model. The answer is kept: `--continue` asks further.
    """
    service = need_service(options_given(vault, state))
    lines = service.events("/chat", _request(question_of(question), more))
    if as_json:
        for line in lines:
            print_json(line, indent=None)
        return
    shown = _show(lines)
    err.say(f"ask further: everindex ask --continue {shown['chat']} ...", "dim")
    if shown["ended"] == "error":
        sys.exit(1)


@app.command()
@_chat_options
@vault_option
@state_option
def chat(more: dict[str, Any], vault: Path | None, state: Path | None) -> None:
    """Talk with a model about your notes, question by question.

    Ctrl-C stops an answer, and an empty line ends the conversation, which is kept.
    """
    service = need_service(options_given(vault, state))
    while question := _next_question():
        try:
            shown = _show(service.events("/chat", _request(question, more)))
        except KeyboardInterrupt:
            err.say("\nstopped", "dim")
            more |= {"chat": more["chat"] or _newest(service)}
        except ChatNotFoundError as error:
            complain(str(error))
            more |= {"chat": None}
            continue
        else:
            more |= {"chat": shown["chat"]}
        more |= {"files": None, "scope": None}  # they are kept with the conversation


def _newest(service: Service) -> str | None:
    """Return the conversation that changed last: the one whose answer was stopped."""
    chats = service.call("GET", "/chats")["chats"]
    return str(chats[0]["id"]) if chats else None


def _next_question() -> str:
    try:
        return out.input("you> ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


def _show(lines: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Print an answer as it comes; return its conversation, and how it ended."""
    sources: dict[int, dict[str, Any]] = {}
    cited: dict[int, None] = {}
    shown = {"chat": "", "ended": "error"}
    for line in lines:
        match line["type"]:
            case "metadata":
                shown["chat"] = line["chat"]
                sources |= {one["n"]: one for one in line["sources"]}
            case "memory" if line["forgotten"]:
                turns = counted(line["forgotten"], "question is", "questions are")
                err.say(f"the oldest {turns} no longer sent to the model", "dim")
            case "tool":
                err.say(f"{line['name']}: {line['said']}", "dim")
            case "text":
                out.print(_marked(line), end="", soft_wrap=True)
                cited |= dict.fromkeys([*line["cited"], *(q["n"] for q in line["quotes"] if q["n"])])
            case "error":
                complain(line["message"])
            case "done":
                shown["ended"] = line["ended"]
                _print_end(line, [sources[n] for n in cited if n in sources])
    return shown


def _marked(line: Mapping[str, Any]) -> Text:
    """Return a sentence with a mark after each quotation."""
    text = Text(style=_STYLES[line["support"]])
    at = 0
    for quote in sorted(
        (one for one in line["quotes"] if one["end"] is not None), key=lambda one: int(one["end"])
    ):
        end = min(len(line["text"].rstrip()), quote["end"] + 1)  # after the quotation mark
        mark, style = _MARKS[quote["verified"]]
        text.append(line["text"][at:end]).append(f" {mark}", style)
        at = end
    return text.append(line["text"][at:])


def _print_end(done: Mapping[str, Any], cited: list[dict[str, Any]]) -> None:
    out.print("\n")
    for source in cited:
        lines = source["lines"]
        where = source["path"] or source["title"]
        out.say(
            f"[{source['n']}] {where}:{lines['first']}-{lines['last']}"
            if lines
            else f"[{source['n']}] {where}"
        )
    quoted = f"{counted(done['verified'], 'quotation')} in your notes, {done['unverified']} not"
    parts = [
        quoted if done["verified"] or done["unverified"] else "no quotations",
        f"{done['tokens_in']:,} + {done['tokens_out']:,} tokens",
        f"${done['dollars']:.4f}" if done["dollars"] else "no cost",
    ]
    if done["index"] and done["index"]["pending"]:
        parts.append(f"{counted(done['index']['pending'], 'saved note')} not yet in the index")
    err.say("; ".join([*parts, *done["limits"]]), "dim")
