import json

import pytest

from benchmarks.chat import Asked, Chosen, ask_all, record, table
from service.schemas.chat import DoneLine, ErrorLine, TextLine
from tests.fakes.model_api import KEY, LOCAL, ErrorEvent, Reply, Said, fake_model
from tests.working import indexed

pytest.importorskip("openai", reason="everindex[chat] is not installed")

NOTES = {
    "Soil.md": "# Soil\n\nGarden soil feeds worms and roots all winter long.\n",
    "Boat.md": "# Boat\n\nThe boat sails on the river every morning.\n",
}
FEEDS, SAILS, FAILS = "What does garden soil feed?", "When does the boat sail?", "Does the server fail?"
DONE = {
    "ended": "complete",
    "tokens_in": 100,
    "tokens_out": 10,
    "dollars": 0.01,
    "index": None,
    "took_ms": 1.0,
}


def reply(request):
    question = str(request["messages"][-1]["content"])
    if FEEDS in question:
        return Reply(Said('It feeds life: "feeds worms and roots all winter". That is all.'))
    if SAILS in question:
        return Reply(Said('It says "sails on the river every evening".'))
    return Reply(Said("I am"), ErrorEvent(message="too busy"))


def cells(text, name):
    """Return a row of a Markdown table by its heads."""
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines())
    return dict(zip(head, next(row for row in rows if row[0] == name), strict=True))


def test_a_service_is_asked_and_what_its_answers_rest_on_is_counted(vault, tmp_path, tiny_model, monkeypatch):
    indexed(vault, tmp_path / "state", tiny_model, NOTES)
    questions = [("answerable", FEEDS), ("answerable", SAILS), ("unanswerable", FAILS)]
    with fake_model(by_default=reply) as fake:
        chat = {"model": LOCAL, "url": f"{fake.url}/v1", "key": KEY, "usd_per_million_tokens": 1}
        monkeypatch.setenv("EVERINDEX_CHAT", json.dumps(chat))
        asked = list(ask_all(Chosen("two", vault, tmp_path / "state", questions), str(tiny_model)))
    assert [one.verified for one in asked] == [1, 0, 0]
    assert [one.unverified for one in asked] == [0, 1, 0]
    assert [one.is_supported for one in asked] == [True, False, False]
    assert [one.ended for one in asked] == ["complete", "complete", "error"]
    assert "no complete answer" in asked[2].wrong[0]
    assert all(one.first_source is not None and one.first_text is not None for one in asked)
    assert asked[0].first_source <= asked[0].first_text
    assert asked[0].tokens_in > 0 < asked[0].dollars
    record(asked, LOCAL, tmp_path / "record.json")
    kept = json.loads((tmp_path / "record.json").read_text())
    assert [one["question"] for one in kept["questions"]] == [FEEDS, SAILS, FAILS]
    assert "feeds worms" in kept["questions"][0]["answer"]
    row = cells(table(asked), "two, answerable")
    assert (row["questions"], row["answered"], row["supported"]) == ("2", "100%", "50%")
    assert row["quotations: verified / not"] == "1 / 1"
    assert cells(table(asked), "two, unanswerable")["stopped or failed"] == "1"


@pytest.fixture
def asked():
    """Two answers: to one the notes do not say anything, the other has no words of the model."""
    first, second = Asked("one", "unanswerable", "Why?"), Asked("one", "unanswerable", "How?")
    for line in (
        TextLine(text="The notes do not seem to answer this.", support="judgement"),
        TextLine(text="I cannot tell. ", support="own"),
        DoneLine(**DONE, verified=0, unverified=0),
    ):
        first.take(line, 0.5)
    second.take(ErrorLine(message="the model is away"), 0.5)
    return [first, second]


def test_what_the_notes_do_not_say_is_no_answer_of_the_model(asked):
    assert asked[0].answer == "I cannot tell. "
    assert asked[1].wrong == ["the model is away"]
    row = cells(table(asked), "one, unanswerable")
    assert (row["not in your notes"], row["answered"], row["supported"]) == ("50%", "50%", "0%")
    assert row["sentences: quoted / cited / unverified / own"] == "0 / 0 / 0 / 1"
    assert (row["tokens in / out"], row["dollars"], row["stopped or failed"]) == ("50 / 5", "0.0100", "1")
