"""Who may see which notes: an agent sees no private note, and a note that is not known to be public is private."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass

import pytest
from pydantic import BaseModel, TypeAdapter

from pipelines.errors import DomainNotFoundError, NoteNotFoundError
from pipelines.filters import parse_filters
from pipelines.reconcile import check_paths
from queue_config.settings import Settings
from service.usecases.audience import OWNER, agents
from service.usecases.explaining import explain
from service.usecases.indexing import index_once
from service.usecases.search import SearchService
from tests.canaries import HIDDEN, NOTES, SEEN, leaks
from workers.resources import Resources


def write(vault, notes):
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)


def index(resources):
    index_once(resources, lambda *_: None)


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    write(vault, NOTES)
    opened = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index(opened)
    return opened


@pytest.fixture
def questions(resources):
    return SearchService(resources, wait_for_model=True)


def as_text(answer):
    """Return an answer as JSON, and an error as what a program is told."""
    if isinstance(answer, BaseModel):
        return answer.model_dump_json()
    if isinstance(answer, NoteNotFoundError):
        return f"{answer} {answer.why}"
    return TypeAdapter(object).dump_json(asdict(answer) if is_dataclass(answer) else answer).decode()


def told(ask, *given, **keywords):
    try:
        return as_text(ask(*given, **keywords))
    except NoteNotFoundError as error:
        return as_text(error)


QUERIES = (
    "garden soil and worms",
    "kanarytextone",
    '"kanarytextthree"',
    "Kanary title four",
    "kanaryaliasfive",
    "soil -kanarytextsix",
    "n7",
    "Kanary stem ten",
    '"garden soil"',
    "earth",
)
FILTERS = (
    [],
    [("tag", "kanarytagone")],
    [("folder", "kanaryfolder3")],
    [("has", "broken-link")],
    [("has", "backlink")],
    [("has", "task")],
    [("author", "kanaryauthorfour")],
    [("property.status", "kanarystatusfive")],
    [("domain", "office")],
)


def asked(questions, audience):
    """Yield questions, each with what it tells an audience."""
    for query in QUERIES:
        for filters in FILTERS:
            found = questions.search(query, 50, parse_filters(filters), explain=True, audience=audience)
            yield f"{query} {filters}", found.model_dump_json()
    for path in sorted(NOTES):
        node = told(questions.node, path, audience=audience)
        why = told(questions.why, path, audience=audience)
        explained = told(explain, questions, "garden soil", path, 50, audience=audience)
        yield path, f"{node}{why}{explained}"


def test_no_word_of_a_private_note_reaches_an_agent_however_it_asks(questions, resources):
    audience = agents(resources, "claude")
    for said, answer in asked(questions, audience):
        assert not leaks(answer, said), answer


def test_the_owner_is_told_every_such_word(questions):
    found = {word for said, answer in asked(questions, OWNER) for word in leaks(answer, said)}
    assert len(found) > 40


def test_an_agent_sees_every_other_note(questions, resources):
    found = questions.search("garden soil", 50, audience=agents(resources))
    assert {hit.path for hit in found.results} == SEEN
    assert questions.node("Soil.md", audience=agents(resources)).title == "Soil"


def test_a_private_note_answers_like_one_that_does_not_exist(questions, resources):
    audience = agents(resources)
    for path in HIDDEN:
        folder = path.rpartition("/")[0]
        other = f"{folder}/no-such-note.md"
        for ask in (questions.node, questions.why):
            hidden, missing = told(ask, path, audience=audience), told(ask, other, audience=audience)
            assert hidden.replace(path, "") == missing.replace(other, "")


def test_a_link_to_a_private_note_is_a_broken_one(questions, resources):
    node = questions.node("Soil.md", audience=agents(resources))
    assert node.outlinks == []
    assert [link["target"] for link in node.unresolved] == ["n1", "n2", "n9"]
    assert {link["path"] for link in node.backlinks} == {"Worms.md"}
    alone = questions.node("Beds/Alone.md", audience=agents(resources))
    assert alone.backlinks == []
    assert questions.node("Beds/Alone.md").backlinks


def test_the_operator_opens_private_notes_to_a_client_by_its_name(resources):
    opened = resources.settings.model_copy(update={"agents_see_private": " claude , other"})
    trusted = Resources(opened)
    assert agents(trusted, "claude").sees_all
    assert not agents(trusted, "claud").sees_all
    assert not agents(trusted).sees_all
    assert not agents(resources, "claude").sees_all


def test_a_changed_setting_takes_effect_at_once(vault, resources):
    audience = agents(resources)
    assert audience.sees("garden", "Soil.md")
    assert audience.sees("garden", "Beds/Compost.md")
    (vault / "_domains.yaml").write_text(
        "garden: {legacy: true, privacy: {tags: ['#Earth'], folders: [beds/]}}\n"
    )
    assert not audience.sees("garden", "Soil.md")
    assert not audience.sees("garden", "Beds/Compost.md")
    assert audience.sees("garden", "Wider.md")
    (vault / "_domains.yaml").write_text("garden: {legacy: true, llm: off}\n")
    assert not audience.sees("garden", "Wider.md")
    with pytest.raises(DomainNotFoundError):
        audience.hidden("office")


def test_a_note_that_another_domain_took_over_is_hidden_in_the_cache_that_still_has_it(vault, resources):
    audience = agents(resources)
    (vault / "_domains.yaml").write_text("garden: {legacy: true}\nbeds: {path: Beds, llm: off}\n")
    assert audience.sees("garden", "Soil.md")
    assert not audience.sees("garden", "Beds/Compost.md")


def test_an_edit_hides_a_note_until_it_is_judged(vault, resources):
    audience = agents(resources)
    garden = resources.cache(resources.registry().get("garden"))
    for text, is_seen in (("# Soil\n\nNew.", True), ("private:: true", False), ("# Soil", True)):
        write(vault, {"Soil.md": text})
        check_paths(vault, resources.registry(), {"garden": garden}, ["Soil.md"], max_bytes=1_000_000)
        assert not audience.sees("garden", "Soil.md")
        index(resources)
        assert audience.sees("garden", "Soil.md") == is_seen


def test_a_moved_note_is_judged_by_its_new_place(vault, resources):
    audience = agents(resources)
    (vault / "Soil.md").rename(vault / "Private" / "Soil.md")
    (vault / "Private/kanaryfolder6/n6.md").rename(vault / "n6.md")
    index(resources)
    assert not audience.sees("garden", "Private/Soil.md")
    assert audience.sees("garden", "n6.md")


def test_a_note_whose_privacy_is_not_stored_is_hidden_until_it_is_indexed_again(resources, questions):
    audience = agents(resources)
    domain = resources.registry().get("garden")
    con = resources.cache(domain).con
    con.execute("DROP TABLE vault_privacy")  # a cache of an earlier version
    assert not any(audience.sees("garden", path) for path in SEEN)
    assert questions.search("garden soil", 50, audience=audience).results == []
    con.execute("UPDATE vault_meta SET value = '4:1/1/1' WHERE key = 'pipeline'")
    before = con.execute("SELECT count(*) FROM vault_vector").fetchall()
    index(Resources(resources.settings))
    assert all(audience.sees("garden", path) for path in SEEN)
    assert resources.cache(domain).con.execute("SELECT count(*) FROM vault_vector").fetchall() == before
