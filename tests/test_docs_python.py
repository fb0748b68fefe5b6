"""The examples of docs/python.md print what the page shows, with a running service and from the index alone."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
import structlog

from tests.whole.conftest import indexed_example

PAGE = Path(__file__).parent.parent / "docs" / "python.md"
PARSED = doctest.DocTestParser().get_doctest(PAGE.read_text(encoding="utf-8"), {}, PAGE.name, str(PAGE), 0)


@pytest.fixture(params=["a running service", "the index alone"])
def place(request, tmp_path_factory, monkeypatch):
    """A folder with the example vault as the page has it."""
    user = indexed_example(tmp_path_factory, EVERINDEX_INBOX="Inbox")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "EVERINDEX_INBOX"):
        monkeypatch.setenv(name, user.environment[name])
    monkeypatch.setenv("EVERINDEX_STATE", str(user.state))
    (user.root.parent / "demo-vault").symlink_to(user.root)
    if request.param == "a running service":
        user.up()
        user.wait_until_upkeep_is_done()
    yield user.root.parent
    user.stop()
    structlog.reset_defaults()


def test_the_page_has_examples_of_each_section():
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == 4
    assert all(">>> " in section for section in sections)


def test_each_example_prints_what_the_page_shows(place, monkeypatch):
    monkeypatch.chdir(place)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(PARSED, out=said.append, clear_globs=False)
    PARSED.globs.clear()
    assert runner.failures == 0, "".join(said)
    assert runner.tries == len(PARSED.examples)
