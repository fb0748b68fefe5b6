"""The messages that docs/troubleshooting.md explains are those of the code, and so are the checks of doctor."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
TOLD = PAGE.partition("## What `everindex status` says")[2]
MESSAGES = [message for message in re.findall(r"^\| (.+?) \|", TOLD, re.MULTILINE) if message != "message"]


def literals():
    """Yield each string of the packages, with `…` for what is put into it."""
    for package in ("everindex", "pipelines", "queue_config", "service", "workers"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                    yield "".join(map(str, parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


@pytest.fixture(scope="module")
def said():
    return set(literals())


def test_there_are_messages_of_both_commands():
    assert len(MESSAGES) > 25


@pytest.mark.parametrize("message", MESSAGES)
def test_the_code_says_it(said, message):
    assert any(message in literal for literal in said)


def test_every_check_of_doctor_is_in_the_documents():
    modules = [ROOT / "service" / "usecases" / "doctor.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in modules)
    checks = set(re.findall(r"\b(?:ok|warning|failure|Finding)\(\s*\"([a-z]+)\"", text))
    table = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8").partition("| check |")[2]
    named = set(re.findall(r"`([a-z]+)`", "".join(re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE))))
    assert len(checks) > 15
    assert checks <= named
