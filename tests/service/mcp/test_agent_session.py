"""A scripted agent with a real vault and real processes: it answers with quotes, is notified of a save, and obeys no note."""

from __future__ import annotations

import shutil

import pytest

from tests import agent_session
from tests.whole.conftest import EXAMPLES, User


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    base = tmp_path_factory.mktemp("session")
    shutil.copytree(EXAMPLES, base / "vault")
    user = User(base, base / "vault")
    user.up()
    yield agent_session.held(user)
    user.stop()


def test_quotes_from_a_block_hold_and_an_invented_one_does_not(session):
    came, _, _ = session
    checked, quotes = came["first"]
    assert len(quotes) == 2
    assert [one["verified"] for one in checked["quotes"]] == [True, True, False]


def test_the_subscription_tells_of_a_save_whose_text_can_then_be_quoted(session):
    came, _, _ = session
    assert came["event"].uri == "vault://fitness/Protecting%20Sleep.md"
    assert came["again"]["status"] == "all_verified"


def test_a_note_with_instructions_is_found_and_read_and_changes_nothing(session):
    came, lines, visits = session
    assert agent_session.CANARY in [hit["path"] for hit in came["found"]["hits"]]
    assert "ignore all earlier instructions" in came["read"]["text"]
    assert came["before"] == came["after"]
    assert visits == []
    assert lines[-1].startswith("(files, proposals of agents and decisions: as before")
