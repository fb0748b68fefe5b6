"""Who may see which notes: an agent sees no private note, and a note that is not known to be public is private."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from pipelines.cache.cache import SqliteCache
from pipelines.cache.notes import Rules
from pipelines.cache.schema import CacheMeta
from pipelines.errors import DomainNotFoundError, NoteNotFoundError
from pipelines.filters import parse_filters
from pipelines.indexing.reconcile import check_paths
from pipelines.model import Privacy
from pipelines.notes.markdown import parse_note
from pipelines.notes.privacy import compared, may_leave
from pipelines.question import read_question
from queue_config.settings import Settings
from service.schemas.evidence import Cited
from service.usecases.audience import agents
from service.usecases.browsing import Browsing, list_notes
from service.usecases.evidence import Records
from service.usecases.explain import explain
from service.usecases.links import Traversal
from service.usecases.maintenance import index_once
from service.usecases.notes import Reader
from service.usecases.search import View
from service.usecases.titles import TitleSearch
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
    return View(resources, wait_for_model=True)


def as_text(answer):
    """Return an answer as JSON, and an error as the text that a program gets."""
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


def searched(view):
    """Yield questions, each with what a search tells its asker."""
    given = [*((query, []) for query in QUERIES), *(("garden soil", filters) for filters in FILTERS)]
    for query, filters in given:
        found = view.search(read_question(query, parse_filters(filters)), 50, explain=True)
        yield f"{query} {filters}", as_text(found)


def named(view):
    """Yield questions, each with what looking for names and for all notes tells its asker."""
    names, browsing = TitleSearch(view), Browsing(view)
    for query in (*QUERIES, "kanary", "kanarytitel", "stem"):
        for limit in (1, 50):
            yield query, as_text(names.titles(query, limit))
    for filters in FILTERS:
        yield f"{filters}", as_text(list_notes(view, parse_filters(filters), "date"))
    yield "", as_text(browsing.start())
    yield "", as_text(browsing.filter_values())


def opened(view):
    """Yield paths, each with what reading the note tells its asker."""
    browsing, records = Browsing(view), Records(view)
    for path in sorted(NOTES):
        yield path, told(view.node, path)
        yield path, told(view.why, path)
        yield path, told(Reader(view).open, path)
        yield path, told(browsing.passage, path, [30])
        for quote in ("Garden soil and worms", "kanary"):
            checked = records.verify([Cited(path=path, quote=quote)])
            yield f"{path} {quote}", as_text(checked)


def compared_with(view):
    """Yield paths, each with what comparing the note with others or a question tells its asker."""
    names, walks = TitleSearch(view), Traversal(view)
    for path in sorted(NOTES):
        yield path, told(names.similar, path, 50)
        yield path, told(walks.traverse, path, 4, read_question(""))
        yield path, told(explain, view, read_question("garden soil"), path, 50)
    for query in QUERIES[:3]:
        yield query, as_text(walks.deep(read_question(query), "compare"))


WAYS = (searched, named, opened, compared_with)


@pytest.mark.parametrize("asked", WAYS)
def test_no_word_of_a_private_note_reaches_an_agent_however_it_asks(questions, resources, asked):
    for said, answer in asked(questions.seen_by(agents(resources, "claude"))):
        assert not leaks(answer, said), answer


@pytest.mark.parametrize("asked", WAYS)
def test_the_owner_sees_such_words(questions, asked):
    found = {word for said, answer in asked(questions) for word in leaks(answer, said)}
    assert len(found) > 10


def test_an_agent_sees_every_other_note(questions, resources):
    view = questions.seen_by(agents(resources))
    found = view.search(read_question("garden soil"), 50)
    assert {hit.path for hit in found.results} == SEEN
    assert view.node("Soil.md").title == "Soil"


def test_a_private_note_answers_like_one_that_does_not_exist(questions, resources):
    view = questions.seen_by(agents(resources))
    for path in HIDDEN:
        folder = path.rpartition("/")[0]
        other = f"{folder}/no-such-note.md"
        names = TitleSearch(view)
        for ask, others in (
            (view.node, ()),
            (view.why, ()),
            (Reader(view).open, ()),
            (names.similar, (5,)),
            (Traversal(view).traverse, (2, read_question(""))),
        ):
            hidden, missing = (told(ask, name, *others) for name in (path, other))
            assert hidden.replace(path, "") == missing.replace(other, "")


def test_text_on_disk_of_unknown_privacy_is_not_read_to_an_agent(vault, questions, resources):
    view = questions.seen_by(agents(resources))
    reader = Reader(view)
    assert reader.open("Soil.md").node
    write(vault, {"Soil.md": "private:: true\n\nkanarylate"})
    with pytest.raises(NoteNotFoundError):
        reader.open("Soil.md")
    assert "kanarylate" in Reader(questions).open("Soil.md").text


def test_counts_are_of_the_notes_that_are_seen(questions, resources):
    view = questions.seen_by(agents(resources))
    linked = {note.path: note.links for note in Browsing(view).start().most_linked}
    assert linked["Soil.md"] == 1
    assert {note.path: note.links for note in Browsing(questions).start().most_linked}["Soil.md"] > 1
    assert list_notes(view, parse_filters([]), "path").count == len(SEEN)


WORDS = (
    "journal",
    "#Journal",
    "journal/2026",
    "Diary",
    "diary/",
    "/Work/Diary",
    "./work",
    "w\u00f6rk",
    "",
    ".",
    "x*",
)
TEXTS = (
    "",
    "#journal",
    "#Journal/2026 #other",
    "---\ntags: [journalist, WO\u0308RK]\n---\n",
    '---\n"tags ": diary\n---\n',
    "+++\ntags = ['journal']\n+++\n",
    "private:: yes",
)
PATHS = ("a.md", "Diary/a.md", "work/diary/b.md", "w\u00f6rk/c.md", "workshop/d.md", "Private/e.md", "x/f.md")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A cache whose only rows are a ledger of notes, each with every text, and what they say of their privacy."""
    meta = CacheMeta("model", 4, "pipeline")
    cache = SqliteCache.create(tmp_path_factory.mktemp("state") / "cache-a.1.db", meta)
    notes = [parse_note(f"{number}/{path}", text) for number, text in enumerate(TEXTS) for path in PATHS]
    for note in notes:
        cache._upsert_node(note, SimpleNamespace(found=SimpleNamespace(mtime_ns=0)))
        cache.con.execute(
            "INSERT INTO vault_file (path, raw, size, mtime_ns, inode, wanted_hash, indexed_hash, generation,"
            " priority, dirty_since) VALUES (?, x'', 0, 0, 0, 'a', 'a', 1, 1, 0)",
            (note.path,),
        )
    yield cache, notes
    cache.close()


@given(
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6), max_size=2),
)
def test_what_is_stored_decides_as_the_note_itself_would(store, tags, folders, others):
    cache, notes = store
    settings = Privacy((*tags, *others), (*folders, *others))
    wanted = {
        note.path
        for note in notes
        if may_leave(
            settings,
            path=note.path,
            text=note.text,
            frontmatter=note.frontmatter,
            tags=note.tags,
            warnings=note.warnings,
        )
    }
    assert cache.notes.private(Rules(compared(settings))).notes == wanted


def test_a_link_to_a_private_note_is_a_broken_one(questions, resources):
    node = questions.seen_by(agents(resources)).node("Soil.md")
    assert node.outlinks == []
    assert [link["target"] for link in node.unresolved] == ["n1", "n2", "n9"]
    assert {link["path"] for link in node.backlinks} == {"Worms.md"}
    alone = questions.seen_by(agents(resources)).node("Beds/Alone.md")
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


def test_a_change_of_private_notes_does_not_show_in_the_state_of_the_index(vault, resources, questions):
    audience = agents(resources)
    garden = resources.cache(resources.registry().get("garden"))
    questions.load_models()
    before, owners = questions.seen_by(audience).index_state(), questions.index_state()
    for path, text in {
        "kanaryfolder1/n1.md": "---\nprivate: true\n---\n# Kanary\n\nOther words. [[Soil]] [[Worms]]",
        "Private/new.md": "# Kanary\n\nNew words. [[Soil]]",
        "office/new.md": "# Kanary\n\nNew words.",
    }.items():
        write(vault, {path: text})
        if (known := path in NOTES) and check_paths(
            vault, resources.registry(), {"garden": garden}, [path], max_bytes=1_000_000
        ):
            assert questions.index_state().pending == known
            assert questions.seen_by(audience).index_state() == before
        index(resources)
        assert questions.seen_by(audience).index_state() == before
    (vault / "kanaryfolder3/n3.md").unlink()
    index(resources)
    assert questions.seen_by(audience).index_state() == before
    assert questions.index_state().generation != owners.generation


def test_every_change_of_what_an_agent_sees_shows_in_the_state_of_the_index(vault, resources, questions):
    audience = agents(resources)
    garden = resources.cache(resources.registry().get("garden"))
    questions.load_models()
    states = [questions.seen_by(audience).index_state().generation]
    for path, text in (
        ("Soil.md", "# Soil\n\nOther words."),
        ("New.md", "# New\n\nNew words."),
        ("New.md", "private:: true"),
        ("kanaryfolder1/n1.md", "# No longer private"),
        ("Wider.md", None),
    ):
        write(vault, {path: text}) if text else (vault / path).unlink()
        check_paths(vault, resources.registry(), {"garden": garden}, [path], max_bytes=1_000_000)
        assert questions.seen_by(audience).index_state().pending == (path != "kanaryfolder1/n1.md")
        index(resources)
        states.append(questions.seen_by(audience).index_state().generation)
    (vault / "Worms.md").rename(vault / "Moved.md")
    index(resources)
    states.append(questions.seen_by(audience).index_state().generation)
    assert all(one != other for one, other in pairwise(states))


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
    con.execute("UPDATE vault_node SET private = NULL")  # as an earlier version left it
    assert not any(audience.sees("garden", path) for path in SEEN)
    assert questions.seen_by(audience).search(read_question("garden soil"), 50).results == []
    con.execute(
        "UPDATE vault_meta SET value = '4' || substr(value, instr(value, ':')) WHERE key = 'pipeline'"
    )
    before = con.execute("SELECT count(*) FROM vault_vector").fetchall()
    index(Resources(resources.settings))
    assert all(audience.sees("garden", path) for path in SEEN)
    assert resources.cache(domain).con.execute("SELECT count(*) FROM vault_vector").fetchall() == before


def test_a_question_has_the_other_names_of_tags_and_an_agents_none_of_private_notes(
    vault, resources, questions
):
    write(
        vault,
        {
            "_domains.yaml": "vault: {legacy: true, vocabulary: 0.5}\n",
            "_taxonomy.md": "# Tags\n\n- bumblebee: of the meadow (aliases: hummel)\n",
            "Plan.md": "---\nprivate: true\ntitle: Zebra takeover\naliases: [nightingale]\n---\nSoon.",
            "Zoo.md": "# Zoo\n\nThe zebra takeover of the lawn by a bumblebee.",
        },
    )
    index(resources)

    def has_words(view, text):
        ranked = view.ranked(read_question(text), 50)
        return any(one.hit.path == "Zoo.md" and one.hit.scores.get("bm25", 0) > 0 for one in ranked.found)

    agent = questions.seen_by(agents(resources))
    assert (has_words(questions, "nightingale"), has_words(agent, "nightingale")) == (True, False)
    assert (has_words(questions, "hummel"), has_words(agent, "hummel")) == (True, True)
    (vault / "_taxonomy.md").write_text("# Tags\n\n- bumblebee: of the meadow\n")
    assert not has_words(questions, "hummel")
    (vault / "_taxonomy.md").write_bytes(b"\xff")
    assert not has_words(questions, "hummel")
