"""Filters leave exactly the chunks of the notes that pass, and the nearest among them are found."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.filters import Filters, fold, parse_filters
from pipelines.model import ChunkSettings, FileContent, FoundFile
from pipelines.notes.chunk import chunk_note
from pipelines.notes.markdown import parse_note

MODIFIED = "2025-06-15"
MTIME_NS = 1_750_000_000 * 10**9  # on that day, UTC
# Neighbours share words, as always, so that a run of words that a cut splits is whole in one of them.
CUT = ChunkSettings(target_words=12, overlap_words=4, max_chars=400)


def put(cache, path, text):
    """Index a note's words as a worker would."""
    note = parse_note(path, text)
    cache._upsert_node(note, FileContent(b"", "h", FoundFile(path, path, 1, MTIME_NS, 1)))
    cache.chunks.replace(note, chunk_note(note, CUT), reworded=False)
    cache.con.execute(
        "INSERT OR IGNORE INTO vault_path VALUES (?, lower(?))", (path, path.rpartition("/")[2])
    )
    cache.edges.replace_links(path, note.links)
    return note


def paths(cache, *parameters):
    """The notes whose chunks are left; all chunks of each are."""
    ids = cache.filters.matching_chunks(parse_filters(parameters))
    assert len(set(ids)) == len(ids)
    left, all_of = {}, {}
    for chunk_id, path in cache.con.execute("SELECT id, path FROM vault_chunk").fetchall():
        all_of.setdefault(path, set()).add(chunk_id)
        if chunk_id in set(ids):
            left.setdefault(path, set()).add(chunk_id)
    assert all(left[path] == all_of[path] for path in left)
    return sorted(left)


def is_value(value, wanted):
    return isinstance(value, (str, int, float)) and fold(str(value)) == wanted


def has_property(note, name, wanted):
    for key, value in note.frontmatter.items():
        values = value if isinstance(value, list) else [value]
        if fold(key) == name and any(is_value(one, wanted) for one in values):
            return True
    return False


HAS = {
    "link": lambda note: any(link.kind != "embed" for link in note.links),
    "embed": lambda note: any(link.kind == "embed" for link in note.links),
    "tag": lambda note: note.tags != (),
    "alias": lambda note: note.aliases != (),
    "property": lambda note: bool(note.frontmatter),
    "task": lambda note: "- [ ] dig" in note.text,
}


def passes(note, filters):
    tags = [fold(tag) for tag in note.tags]
    authors = [fold(name) for name in (note.author or "").split(", ")]
    day = (note.published_at or MODIFIED)[:10]
    return (
        (not filters.folders or fold(note.path).startswith(tuple(f"{f}/" for f in filters.folders)))
        and all(any(tag == t or tag.startswith(f"{t}/") for tag in tags) for t in filters.tags)
        and (not filters.authors or any(author in authors for author in filters.authors))
        and (not filters.kinds or fold(note.kind or "") in filters.kinds)
        and (filters.since or "0") <= day <= (filters.until or "9999-99")
        and all(
            any(has_property(note, name, value) for other, value in filters.properties if other == name)
            for name, _ in filters.properties
        )
        and all(HAS[what](note) for what in filters.has)
    )


KEYS = ["status", "Status", "ÉTAT", 'quo"te', "a.b", "länge\\n"]
TEXTS = [
    "draft",
    "Draft",
    "café",
    "CAFE\u0301",
    '"quoted"',
    "back\\slash",
    "日記",
    "3",
    "true",
    "a\x01b",
    "ẞ",
]
SCALARS = [*TEXTS, 3, 3.5, -2, 0, 10**15, 1e20, True, False, None, date(2024, 2, 29)]
FOLDERS = ["Garden", "garden/beds", "GÄRTEN", "日記", "100%_", ""]
TAGS = ["inbox", "Inbox/To-Read", "inboxes", "日記", "Straße", "a/b/c"]
AUTHORS = ["Ada Lovelace", "Émile Zola", "Lovelace", "[[Ada|Émile Zola]]"]
DAYS = ["2024-02-29", "2024-03-01", "2025-06-15", "2025-06-16T10:00:00+02:00", "someday"]

values = st.sampled_from(SCALARS) | st.lists(st.sampled_from(SCALARS), max_size=3)
frontmatters = st.fixed_dictionaries(
    {},
    optional={
        **{key: values | st.just({"status": "draft"}) for key in KEYS},
        "tags": st.lists(st.sampled_from(TAGS), max_size=3),
        "author": st.lists(st.sampled_from(AUTHORS), max_size=2),
        "kind": st.sampled_from(["Book", "book", "Übung"]),
        "published": st.sampled_from(DAYS),
        "aliases": st.just(["Also"]),
    },
)
bodies = st.lists(
    st.sampled_from(["[[Soil]]", "![[pic.png]]", "- [ ] dig", "#inline/Tag", "words " * 30, "[ ] no task"])
).map("\n\n".join)
written = st.tuples(st.sampled_from(FOLDERS), frontmatters, bodies)

parameters = st.one_of(
    st.tuples(st.just("folder"), st.sampled_from(["garden", "Garden/", "gärten", "日記", "100%_", "bed"])),
    st.tuples(st.just("tag"), st.sampled_from([*TAGS, "INBOX", "a/b", "inline", "strasse", "nb"])),
    st.tuples(st.just("author"), st.sampled_from(["ada lovelace", "ÉMILE zola", "lovelace", "Ada"])),
    st.tuples(st.just("kind"), st.sampled_from(["BOOK", "übung", "boo"])),
    st.tuples(
        st.sampled_from([f"property.{key}" for key in [*KEYS, "étät", "STATUS", "etat"]]),
        st.sampled_from([*TEXTS, "3.0", "3.50", "-2", "1e20", "TRUE", "2024-02-29", "null", "status"]),
    ),
    st.tuples(st.just("has"), st.sampled_from(list(HAS))),
)
bounds = st.sampled_from(
    [
        [],
        [("since", "2024-03-01")],
        [("until", "2025-06-15")],
        [("since", "2024-03-01"), ("until", "2025-06-15")],
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    notes=st.lists(written, min_size=1, max_size=8), chosen=st.lists(parameters, max_size=3), between=bounds
)
def test_filters_leave_the_notes_that_a_plain_reading_of_the_files_leaves(cache, notes, chosen, between):
    for table in ("vault_node", "vault_chunk", "vault_chunk_fts", "vault_path", "vault_link", "vault_edge"):
        cache.con.execute(f"DELETE FROM {table}")
    parsed = []
    for number, (folder, frontmatter, body) in enumerate(notes):
        block = yaml.safe_dump(frontmatter, allow_unicode=True) if frontmatter else ""
        path = f"{folder}/{number}.md".lstrip("/")
        parsed.append(put(cache, path, f"---\n{block}---\nSome words.\n\n{body}\n"))
    filters = parse_filters([*chosen, *between])
    expected = sorted(note.path for note in parsed if passes(note, filters))
    if filters == Filters():
        assert cache.filters.matching_chunks(filters) is None
    else:
        assert paths(cache, *chosen, *between) == expected


def test_a_nested_tag_is_found_by_its_parents_and_not_by_the_start_of_a_word(cache):
    put(cache, "a.md", "#Inbox/To-Read")
    put(cache, "b.md", "#inboxes")
    assert paths(cache, ("tag", "inbox")) == ["a.md"]
    assert paths(cache, ("tag", "inbox/to-read")) == ["a.md"]
    assert paths(cache, ("tag", "to-read")) == []


def test_two_tags_must_both_be_there_and_of_two_folders_one_will_do(cache):
    put(cache, "x/a.md", "#one #two")
    put(cache, "y/b.md", "#one")
    put(cache, "z/c.md", "#two")
    assert paths(cache, ("tag", "one"), ("tag", "two")) == ["x/a.md"]
    assert paths(cache, ("folder", "x"), ("folder", "z")) == ["x/a.md", "z/c.md"]
    assert paths(cache, ("folder", "x"), ("folder", "z"), ("tag", "two")) == ["x/a.md", "z/c.md"]


def test_of_two_values_of_one_property_one_will_do_and_two_properties_must_both_be_there(cache):
    put(cache, "a.md", "---\nticker: NVDA\nstatus: open\n---\nwords")
    put(cache, "b.md", "---\nticker: [AMD, INTC]\nstatus: done\n---\nwords")
    put(cache, "c.md", "---\nticker: TSM\n---\nwords")
    either = [("property.ticker", "NVDA"), ("property.Ticker", "AMD")]
    assert paths(cache, *either) == ["a.md", "b.md"]
    assert paths(cache, *either, ("property.status", "done")) == ["b.md"]


def test_two_titles_or_names_of_files_must_both_be_contained(cache):
    put(cache, "Letters/2024 clay.md", "# Letter about clay\n\nwords")
    put(cache, "2024.md", "# A letter\n\nclay")
    assert paths(cache, ("title", "LETTER"), ("title", "clay")) == ["Letters/2024 clay.md"]
    assert paths(cache, ("file", "2024"), ("file", "Clay")) == ["Letters/2024 clay.md"]
    assert paths(cache, ("file", "letters")) == []


def test_a_path_that_ends_as_a_file_is_whole_and_any_other_a_part(cache):
    put(cache, "Letters/a.md", "words")
    put(cache, "b/Letters/a.md", "words")
    put(cache, "c.md", "words")
    assert paths(cache, ("path", "Letters/a.md")) == ["Letters/a.md"]
    assert paths(cache, ("path", "LETTERS/A")) == ["Letters/a.md", "b/Letters/a.md"]
    assert paths(cache, ("path", "Letters/a.md"), ("path", "b/let")) == ["Letters/a.md", "b/Letters/a.md"]
    assert paths(cache, *[("path", f"{number}") for number in range(1_000)]) == []


def test_a_minus_leaves_out_what_passes_and_keeps_what_has_no_such_field(cache):
    put(cache, "a.md", "---\nkind: letter\n---\nwords")
    put(cache, "b.md", "---\nkind: note\ntags: [x]\n---\nwords")
    put(cache, "c.md", "words")
    assert paths(cache, ("-kind", "letter")) == ["b.md", "c.md"]
    assert paths(cache, ("-kind", "letter"), ("-tag", "x")) == ["c.md"]
    assert paths(cache, ("-kind", "letter"), ("tag", "x")) == ["b.md"]


def test_an_undated_note_is_as_old_as_its_file(cache):
    put(cache, "old.md", "---\npublished: 1999-12-31\n---\nwords")
    put(cache, "undated.md", "words")
    assert paths(cache, ("until", "1999-12-31")) == ["old.md"]
    assert paths(cache, ("since", MODIFIED)) == ["undated.md"]


WRITTEN = ["1.10", "1.1", "01234", "NO", "no", "true", "12:30", "2024-02-29", "3", "3.0", "1e3", "0x1F"]


@pytest.mark.parametrize("value", WRITTEN)
@pytest.mark.parametrize("form", ["x: {}", "x: [a, {}]", "x: '{}'"])
def test_a_property_is_found_by_its_value_as_it_is_written_and_by_no_other_form(cache, value, form):
    put(cache, "a.md", f"---\n{form.format(value)}\n---\nwords")
    assert paths(cache, ("property.x", value)) == ["a.md"]
    for other in ("1", "1.100", "1234", "668", "false", "1000", "31", "750", "3.00"):
        assert paths(cache, ("property.x", other)) == []
    for other in WRITTEN:
        assert paths(cache, ("property.x", other)) == (["a.md"] if fold(other) == fold(value) else [])


def test_backlinks_and_broken_links_are_what_the_edges_say(cache):
    put(cache, "b.md", "Here, and [[b]].")
    put(cache, "a.md", "See [[b]] and [[nowhere]].")
    assert paths(cache, ("has", "backlink")) == ["b.md"]
    assert paths(cache, ("has", "broken-link")) == ["a.md"]


def test_an_import_of_what_is_elsewhere_is_no_broken_link(cache):
    put(cache, "a.py", "[[numpy.py]]")
    assert paths(cache, ("has", "link")) == ["a.py"]
    assert paths(cache, ("has", "broken-link")) == []


def test_a_community_has_its_members(cache):
    for number, path in enumerate(("a.md", "b.md", "c.md")):
        put(cache, path, "words")
        cache.con.execute("INSERT INTO vault_rank VALUES (?, 0.1, 0.1, ?)", (path, number))
    assert paths(cache, ("community", "1")) == ["b.md"]
    assert paths(cache, ("community", "0"), ("community", "2")) == ["a.md", "c.md"]


def test_what_looks_like_sql_is_a_value(cache):
    put(cache, "a.md", "words")
    for name in ("folder", "author", "kind", "property.x'; --", "property.x"):
        assert paths(cache, (name, "') OR 1=1 --")) == []


def test_fifty_filters_of_the_costly_kind_are_one_query(cache):
    put(cache, "a.md", "---\nx: [1, 2]\n---\nwords")
    assert paths(cache, *[("property.x", "2")] * 25, *[("author", "Ada")] * 25) == []
    assert paths(cache, *[("property.x", str(number)) for number in range(50)]) == ["a.md"]
    assert paths(cache, *[("-property.x", str(number)) for number in range(3, 53)]) == ["a.md"]


@pytest.mark.parametrize("k", [1, 7, 40, 500])
def test_the_nearest_among_the_allowed_are_exact(cache, k):
    generator = np.random.default_rng(5)
    for number in range(120):
        put(cache, f"{'in' if number % 3 else 'out'}/{number}.md", f"#t{number % 5} " + f"word{number} " * 30)
    rows = cache.con.execute("SELECT id FROM vault_chunk").fetchall()
    vectors = {chunk_id: generator.normal(size=4).astype("<f4") for (chunk_id,) in rows}
    cache.con.executemany(
        "INSERT INTO vault_chunk_vec VALUES (?, ?)", ((i, v.tobytes()) for i, v in vectors.items())
    )
    question = generator.normal(size=4).astype("<f4")
    allowed = cache.filters.matching_chunks(parse_filters([("folder", "in"), ("tag", "t2")]))
    assert 0 < len(allowed) < len(vectors)

    def cosine(chunk_id):
        vector = vectors[chunk_id]
        return float(question @ vector / np.linalg.norm(question) / np.linalg.norm(vector))

    found = cache.con.execute(
        "SELECT chunk_id FROM vault_chunk_vec WHERE embedding MATCH ? AND k = ?"
        " AND chunk_id IN (SELECT value FROM json_each(?)) ORDER BY distance",
        (question.tobytes(), k, json.dumps(allowed)),
    ).fetchall()
    assert [chunk_id for (chunk_id,) in found] == sorted(allowed, key=cosine, reverse=True)[:k]


def test_values_in_use_are_no_longer_than_wanted(cache):
    values = {"tag": "a/" * 9 + "bb", "folder": "f" * 9 + "/" + "g" * 20, "kind": "k" * 20}
    put(
        cache, f"{values['folder']}/A.md", f"---\ntags: [{values['tag']}]\nkind: {values['kind']}\n---\nText."
    )
    put(cache, "No folder.md", "No tag, no kind.")
    longest = {name: len(value) for name, value in values.items()}
    assert list(cache.filters.values_in_use(longest)) == [(name, value, 1) for name, value in values.items()]
    for name in values:
        left = cache.filters.values_in_use(longest | {name: longest[name] - 1})
        assert [found for found, *_ in left] == [other for other in values if other != name]
