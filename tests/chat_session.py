"""A conversation with a real vault and a real model that is small: what was asked, and each line that came.

`python -m tests.chat_session` holds one about two notes, with the server that `EVERINDEX_TEST_SERVERS` names
(tests/servers.py), and puts it into docs/notes/chat.md.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.servers import llama_chat
from tests.structure import ROOT
from tests.whole.conftest import User, wait_for

PAGE = ROOT / "docs" / "notes" / "chat.md"
BLOCK = re.compile(
    r"(<!-- conversation: made by `python -m tests\.chat_session` -->\n).*?(<!-- end -->\n)", re.DOTALL
)
SAID = (
    'Anna says: "Tomatoes need water every evening in summer."',
    'Tom says: "Beans need water every morning in spring."',
    'Anna says: "Roses need no water before the end of May."',
    'Tom says: "Lettuce needs water as soon as it is sown."',
)
NOTES = {"Garden.md": "# Garden\n\n" + "\n".join(SAID) + "\n", "Boat.md": "# Boat\n\nIt sails on Sunday.\n"}
"""The model goes on as the text before it does, so what it reads has quotations."""
QUESTION = f"Write down what Anna and Tom say, word for word:\n{SAID[0]}\nTom says:"
LINES = 12
"""After so many lines of text the reader has seen enough: a base model does not end by itself."""
_LONGEST = 110
_MARKS = {"quoted": "✓", "cited": "c", "unverified": "✗", "own": " ", "judgement": "!"}


def write(root: Path) -> Path:
    """Write the notes into a new vault, and return it."""
    root.mkdir()
    for path, text in NOTES.items():
        (root / path).write_text(text, encoding="utf-8")
    return root


@contextmanager
def asked_user(base: Path, root: Path, **environment: str) -> Iterator[User]:
    """Serve a vault whose conversations are answered by a real model."""
    with llama_chat(base) as served:
        chat = {"model": "gemma-3-270m", "url": served.url, "local": True}
        user = User(base, root, EVERINDEX_CHAT=json.dumps(chat), **environment)
        user.up()
        try:
            yield user
        finally:
            user.stop()


def lines_of(user: User, most: int = 10**9, **body: object) -> Iterator[dict]:
    """Yield the lines of an answer as they come; leave after so many lines of text, before the end."""
    token = (user.state / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    address = f"http://127.0.0.1:{user.port}/chat"
    with httpx.stream("POST", address, json=body, headers=headers, timeout=200) as response:
        assert response.status_code == 200, response.read()
        for text in response.iter_lines():
            line = json.loads(text)
            yield line
            most -= line["type"] == "text"
            if not most:
                return


def kept(user: User, chat: str) -> dict:
    """Return the first question of a conversation with its answer, once that is kept."""

    def turn() -> dict | None:
        found = user.get(f"/chats/{chat}").json()["turns"][0]
        return found if found["done"] else None

    return dict(wait_for(turn, "the answer is kept"))


def held(user: User) -> Iterator[str]:
    """Ask both questions, and yield the transcript."""
    for question in ("When do tomatoes need water?", QUESTION):
        yield f"> {_short(question)}"
        chat = ""
        for line in lines_of(user, LINES, question=question):
            chat = line.get("chat", chat)
            yield from shown(line)
        if line["type"] != "done":
            yield from shown(kept(user, chat)["done"])


def shown(line: dict) -> Iterator[str]:
    """Yield a line as the transcript has it."""
    if line["type"] == "metadata":
        yield f"  match: {line['match']}, model: {line['model']}, local: {str(line['local']).lower()}"
        yield from (
            f"  [{one['n']}] {one['path']}:{one['lines']['first']}-{one['lines']['last']}"
            for one in line["sources"]
        )
    elif line["type"] == "text" and line["text"].strip():
        yield f"{_MARKS[line['support']]} {_short(line['text'])}"
        for one in line["quotes"]:
            where = f" [{one['n']}]" if one["verified"] else f": {one['reason']}"
            yield f"    {'verified' if one['verified'] else 'not'}{where} {_short(one['quote'])}"
    elif line["type"] == "error":
        yield f"  error: {line['message']}"
    elif line["type"] == "done":
        counts = f"{line['tokens_in']} and {line['tokens_out']} tokens, {line['dollars']} dollars"
        yield f"  {line['ended']}: {line['verified']} verified, {line['unverified']} not; {counts}"
        yield from (f"  limit: {limit}" for limit in line["limits"])


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= _LONGEST else f"{one[: _LONGEST - 1]}…"


def main() -> None:
    """Hold the conversation, and put it into the page."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        with asked_user(base, write(base / "vault")) as user:
            text = "\n".join(line.rstrip() for line in held(user))
    page = PAGE.read_text(encoding="utf-8")
    block = f"\n```text\n{text}\n```\n\n"
    PAGE.write_text(BLOCK.sub(lambda found: f"{found[1]}{block}{found[2]}", page), encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
