"""The SQL views of a vault in PostgreSQL, by the rules of privacy and for each of its roles: a real server."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.cache.notes import Rules
from pipelines.cache.postgres import PostgresCache
from pipelines.cache.schema import CacheMeta
from pipelines.embedding.models import NO_MODEL, find_model
from pipelines.errors import StorageUnavailableError
from pipelines.indexing.ingest import pipeline_name
from pipelines.model import PostgresPlace, Privacy
from pipelines.notes.privacy import compared
from pipelines.state.state import State
from pipelines.state.tags import Proposals
from pipelines.state.views import ViewedDomain, show
from tests.pipelines.conftest import House, as_read

pytestmark = pytest.mark.slow

EVERYTHING_MAY_LEAVE = Privacy()
NAMES = ("", "a", "a/b", "Diary", "secret", "Über", "%", "x'y")


class WordsAlone:
    """What a house needs of an embedder where there is no model."""

    info = find_model(NO_MODEL)


class Viewed:
    """A house whose state and cache are in PostgreSQL, with its views. `read` runs a query as some role."""

    def __init__(self, house: House, place: PostgresPlace) -> None:
        self.house = house
        self.place = place

    def show(
        self, privacy: Privacy = EVERYTHING_MAY_LEAVE, folder: str = "", nested: tuple[str, ...] = ()
    ) -> Rules:
        rules = Rules(compared(privacy), folder, nested)
        own = rules.settings
        show(
            self.place,
            [ViewedDomain("vault", own.llm, [*own.tags], [*own.folders], folder, [*nested], ["_queue.md"])],
        )
        return rules

    def save(self, path: str, text: str) -> None:
        self.house.write(path, text)
        self.house.notice(path)
        self.house.drain()

    def read(self, query: str, user: str = "everindex") -> list[tuple[object, ...]]:
        address = self.place.address.replace("everindex@", f"{user}@")
        with psycopg.connect(address) as con:
            return con.execute(query).fetchall()

    def paths(self, view: str, schema: str = "views", key: str = "file_path") -> list[str]:
        return [
            path for (path,) in self.read(f"SELECT {key} FROM {self.place.vault}_{schema}.{view} ORDER BY 1")
        ]


@pytest.fixture(scope="module")
def name():
    numbers = iter(range(100))
    return lambda: f"vault{next(numbers)}"


@pytest.fixture
def viewed(vault, tmp_path, postgres, name):
    (tmp_path / "state").mkdir()
    place = PostgresPlace(tmp_path / "state", postgres.address, name())
    State(place).close()
    house = House(vault, tmp_path / "state", WordsAlone(), address=postgres.address)
    house.cache.close()
    meta = CacheMeta(house.info.name, house.info.dimension, pipeline_name(house.chunking))
    path = tmp_path / "state" / "cache-vault.1.db"
    house.cache = PostgresCache.create(
        postgres.address, place.schema(path.stem), path, meta, clock=lambda: house.now
    )
    made = Viewed(house, place)
    made.show()
    yield made
    house.close()


def test_a_document_and_its_passages_have_what_the_note_says(viewed):
    house = viewed.house
    house.write(
        "Moats.md",
        "---\nkind: essay\ncreated: 2026-01-05\ntags: [moat, a/b]\nticker: NVDA\n---\n# Moats\n\nA price.\n\n"
        "## Width\n\nWide, see [[Garden]] and ![[none.png]].\n",
    )
    house.write("Garden.md", "# Garden\n\nSoil.\n")
    house.index()
    (document,) = viewed.read(
        "SELECT doc_id, title, doc_type, doc_date::text, tags, properties ->> 'ticker', embed_model, created_at::date"
        f"::text FROM {viewed.place.vault}_views.documents WHERE file_path = 'Moats.md'"
    )
    assert document[:5] == ("Moats.md", "Moats", "essay", "2026-01-05", ["moat", "a/b"])
    assert document[5:] == ("NVDA", "none", "2026-01-05")
    passages = viewed.read(
        "SELECT p.section_path, p.section_label, p.chunk_index, p.has_vector, d.chunk_count"
        f" FROM {viewed.place.vault}_views.passages p JOIN {viewed.place.vault}_views.documents d"
        " USING (domain, file_path) WHERE file_path = 'Moats.md' ORDER BY chunk_index"
    )
    assert passages == [("Moats", "Moats", 0, False, 2), ("Moats > Width", "Width", 1, False, 2)]
    house.write("bare.md", "Without a heading.")
    house.index()
    bare = f"SELECT section_path, section_label FROM {viewed.place.vault}_views.passages WHERE file_path = 'bare.md'"
    assert viewed.read(bare) == [("bare", "bare")]
    links = viewed.read(
        f"SELECT target, written, kind, line FROM {viewed.place.vault}_views.links ORDER BY line, written"
    )
    assert links == [("Garden.md", "Garden", "wikilink", 13), (None, "none.png", "embed", 13)]


def test_a_record_is_known_by_its_id(viewed):
    viewed.house.write("_domains.yaml", "vault:\n  legacy: true\n  formats: [md, json]\n")
    viewed.house.write("records/1.json", '{"_meta": {"id": "EA-1"}, "thesis": {"statement": "Grows."}}')
    viewed.house.write("note.md", "---\nid: EA-1\n---\nNo record.\n")
    viewed.house.index()
    found = dict(viewed.read(f"SELECT file_path, doc_id FROM {viewed.place.vault}_views.documents"))
    assert found["note.md"] == "note.md"
    assert found["records/1.json"] == "EA-1"


def test_what_a_note_says_oddly_costs_itself_alone(viewed):
    house = viewed.house
    house.write("odd.md", '---\ntags: ["a\\0b"]\ncreated: 99999-13-45\nx: "\\0"\ny: .nan\n---\nText.\n')
    house.write("plain.md", "---\ntags: [soil]\n---\nText.\n")
    house.index()
    with house.cache.transaction():
        house.cache.con.execute(
            "UPDATE vault_node SET published_at = '-1-99-99', tags = '{' WHERE path = 'odd.md'"
        )
    found = viewed.read(f"SELECT file_path, tags FROM {viewed.place.vault}_views_all.documents ORDER BY 1")
    assert found == [("odd.md", []), ("plain.md", ["soil"])]
    assert len(viewed.read(f"SELECT * FROM {viewed.place.vault}_views_all.passages")) == 2


names = st.lists(st.sampled_from(NAMES), max_size=2).map(tuple)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tags=names,
    folders=names,
    llm=st.sampled_from([True, True, True, False]),
    folder=st.sampled_from(["", "", "a/"]),
    nested=st.sampled_from([(), ("a/b/",)]),
)
def test_the_views_hide_the_notes_that_agents_do_not_see(viewed, tags, folders, llm, folder, nested):
    house, cache = viewed.house, as_read(viewed.house.cache)
    if not house.cache.counts().notes:
        for place in ("", "a/", "a/b/", "Diary/", "private/"):
            for number, tag in enumerate(("a", "a/b", "secret/x", "Über", "private", "other")):
                house.write(f"{place}{number}.md", f"---\ntags: [{tag}]\n---\nText {place}{number}.\n")
            house.write(f"{place}plain.md", f"Text of {place}.\n")
        house.write("marked.md", "private:: true\n")
        house.write("_queue.md", "Quotes.\n")
        house.index()
        house.write("plain.md", "It may be private now.\n")
        house.notice("plain.md")
    rules = viewed.show(Privacy(tags, folders, llm), folder, nested)
    cache = as_read(house.cache)
    private = cache.notes.private(rules)
    found = viewed.read(f"SELECT path, private, known FROM {viewed.place.schema('state')}.view_note()")
    assert {path for path, hidden, _ in found if hidden} == private.notes | {"_queue.md"}
    assert {path for path, _, known in found if known} == private.known - {"_queue.md"}
    assert set(viewed.paths("documents")) == {path for path, hidden, _ in found if not hidden}


def test_without_private_notes_nothing_of_them_is_shown(viewed):
    house = viewed.house
    house.write("open.md", "# Open\n\nSee [[closed]], [[gone]].\n")
    house.write("closed.md", "---\nprivate: true\n---\n# Sealed\n\nSee [[open]].\n")
    house.index()
    everything = {
        view: str(viewed.read(f"SELECT * FROM {viewed.place.vault}_views.{view}"))
        for view in ("documents", "passages", "links", "ranks", "proposals", "history")
    }
    assert "Open" in everything["documents"]
    assert [view for view, shown in everything.items() if "closed.md" in shown or "Sealed" in shown] == []
    assert viewed.paths("documents", "views_all") == ["closed.md", "open.md"]
    assert viewed.read(f"SELECT target FROM {viewed.place.vault}_views.links") == [(None,), (None,)]
    viewed.save("closed.md", "# Unsealed\n\nSee [[open]].\n")
    assert viewed.paths("documents") == ["closed.md", "open.md"]
    assert ("closed.md",) in viewed.read(f"SELECT target FROM {viewed.place.vault}_views.links")


def test_communities_are_not_shown_where_a_note_is_private(viewed):
    house = viewed.house
    house.write("a.md", "See [[b]].")
    house.write("b.md", "See [[a]].")
    house.index()
    cache = house.cache
    with cache.transaction():
        cache.con.execute("DELETE FROM vault_rank")
        cache.con.execute("INSERT INTO vault_rank VALUES ('a.md', 0.5, 0.5, 1), ('b.md', 0.5, 0.5, 1)")
        cache.con.execute("INSERT INTO vault_community VALUES (1, 'Letters') ON CONFLICT DO NOTHING")
    ranks = f"SELECT file_path, pagerank, community FROM {viewed.place.vault}_views.ranks ORDER BY 1"
    assert viewed.read(ranks) == [("a.md", 0.5, 1), ("b.md", 0.5, 1)]
    viewed.save("c.md", "private:: true")
    assert viewed.read(ranks) == [("a.md", 0.5, None), ("b.md", 0.5, None)]


def test_proposals_and_history_are_those_of_notes_that_are_shown(viewed):
    house = viewed.house
    house.write("open.md", "Open.")
    house.write("closed.md", "private:: true")
    house.index()
    with closing(State(viewed.place)) as state, closing(Proposals(viewed.place)) as proposals:
        assert state
        for path in ("open.md", "closed.md", "gone.md"):
            proposals._con.execute(
                "INSERT INTO tag_proposal (domain, path, key, tag, tag_group, confidence, proposer, state, proposed_at)"
                " VALUES ('vault', ?, 'soil', 'soil', 'topics', 0.8, 'local', 'waiting', '2026-01-05T10:00:00+00:00')",
                (path,),
            )
            proposals._con.execute(
                "INSERT INTO note_log (at, domain, path, action, texts_embedded, vectors_pending, ms, model, pipeline,"
                " error, other_path) VALUES ('2026-01-05T10:00:00+00:00', 'vault', ?, 'parked', 0, 0, 1, 'm', 'p',"
                " 'why', 'closed.md')",
                (path,),
            )
    for view in ("proposals", "history"):
        assert viewed.paths(view) == ["open.md"]
        assert viewed.paths(view, "views_all") == ["closed.md", "gone.md", "open.md"]
    assert viewed.read(f"SELECT other_path FROM {viewed.place.vault}_views.history") == [(None,)]


def test_a_cache_is_found_whatever_its_name(viewed):
    for name in (
        "cache-vault.1",
        "cache-" + "x" * 80 + ".12",
        "cache-" + "ü" * 25 + ".1",
        "cache-" + "y" * 46 + ".1",
    ):
        for vault in (viewed.place.vault, "a" * 30):
            place = PostgresPlace(viewed.place.folder, viewed.place.address, vault)
            sql = f"SELECT {viewed.place.schema('state')}.view_schema('{vault}', '{name}')"
            assert viewed.read(sql) == [(place.schema(name),)]


def test_the_views_show_another_cache_as_soon_as_it_is_current_and_none_in_part(viewed):
    house, place = viewed.house, viewed.place
    house.write("old.md", "Old.")
    house.index()
    path = place.folder / "cache-vault.2.db"
    with closing(PostgresCache.create(place.address, place.schema(path.stem), path, house.cache.meta)) as new:
        assert viewed.paths("documents") == ["old.md"]
        with psycopg.connect(place.address) as reader, closing(State(place)) as state:
            seen = f"SELECT file_path FROM {place.vault}_views.documents"
            assert reader.execute(seen).fetchall() == [("old.md",)]
            state.switch_cache("vault", 2)  # a reader's transaction delays it not
            assert viewed.paths("documents") == []
            assert reader.execute(seen).fetchall() == []
        assert new.counts().notes == 0
        viewed.show(Privacy(llm=False))
    with closing(State(place)) as state:
        state.switch_cache("vault", 1)
    assert viewed.paths("documents") == []
    assert viewed.paths("documents", "views_all") == ["old.md"]


def test_a_domain_that_is_gone_is_not_shown(viewed):
    viewed.house.write("a.md", "Text.")
    viewed.house.index()
    assert viewed.paths("documents") == ["a.md"]
    show(viewed.place, [])
    assert viewed.paths("documents", "views_all") == []


def test_a_dashboard_sees_the_views_that_it_may_and_nothing_else(viewed):
    house, vault = viewed.house, viewed.place.vault
    house.write("open.md", "Open.")
    house.write("closed.md", "private:: true, the launch code is 1234")
    house.index()
    with psycopg.connect(viewed.place.address, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE dashboard_{vault} LOGIN")
        owner.execute(f"GRANT USAGE ON SCHEMA {vault}_views TO dashboard_{vault}")
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {vault}_views TO dashboard_{vault}")
    user = f"dashboard_{vault}"
    for view in ("documents", "passages", "links", "ranks", "proposals", "history"):
        viewed.read(f"SELECT * FROM {vault}_views.{view}", user)
    assert viewed.read(f"SELECT file_path FROM {vault}_views.documents", user) == [("open.md",)]
    cache = viewed.place.schema("cache-vault.1")
    for forbidden in (
        f"SELECT * FROM {vault}_views_all.documents",
        f"SELECT * FROM {vault}_state.view_document()",
        f"SELECT * FROM {vault}_state.view_note()",
        f"SELECT * FROM {vault}_state.tag_proposal",
        f'SELECT * FROM "{cache}".vault_chunk',
        f"UPDATE {vault}_views.documents SET title = ''",
        f"CREATE TABLE {vault}_views.mine (a int)",
    ):
        with pytest.raises(psycopg.errors.DatabaseError):
            viewed.read(forbidden, user)
    # So that no function in a dashboard's condition is called with a row that the view leaves out.
    assert (
        viewed.read(
            "SELECT relname FROM pg_class WHERE 'security_barrier=true' <> ALL(coalesce(reloptions, '{}'))"
            f" AND relnamespace = '{vault}_views'::regnamespace"
        )
        == []
    )


def test_views_of_another_version_are_made_again_and_stay_granted(viewed):
    vault = viewed.place.vault
    viewed.house.write("a.md", "Text.")
    viewed.house.index()
    with psycopg.connect(viewed.place.address, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE later_{vault} LOGIN")
        owner.execute(f"GRANT USAGE ON SCHEMA {vault}_views TO later_{vault}")
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {vault}_views TO later_{vault}")
        owner.execute(f"UPDATE {vault}_state.state_meta SET value = 'earlier' WHERE key = 'views'")
        broken = f"CREATE OR REPLACE VIEW {vault}_views_all.links AS SELECT * FROM {vault}_state.view_link() WHERE false"
        owner.execute(broken)
    viewed.show()
    assert viewed.read(f"SELECT file_path FROM {vault}_views.documents", f"later_{vault}") == [("a.md",)]
    (definition,) = viewed.read(f"SELECT pg_get_viewdef('{vault}_views_all.links'::regclass)")
    assert "false" not in definition[0]


def test_a_long_query_delays_new_views_and_not_the_state(viewed):
    vault = viewed.place.vault
    with psycopg.connect(viewed.place.address) as reader:
        reader.execute(f"SELECT * FROM {vault}_views.documents")
        with psycopg.connect(viewed.place.address, autocommit=True) as owner:
            owner.execute(f"UPDATE {vault}_state.state_meta SET value = 'earlier' WHERE key = 'views'")
        with pytest.raises(StorageUnavailableError, match="lock timeout"):
            viewed.show()
    viewed.show()


def test_the_documentation_lists_the_columns(viewed):
    said = (Path(__file__).parents[3] / "docs" / "deployment.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (`domain`.*) \|$", said, re.MULTILINE)
    listed = {view: re.findall(r"`(\w+)`", columns) for view, columns in rows}
    found = viewed.read(
        "SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) FROM information_schema.columns"
        f" WHERE table_schema = '{viewed.place.vault}_views' GROUP BY table_name"
    )
    assert listed == dict(found)


def test_every_column_says_what_it_is(viewed):
    for schema in ("views", "views_all"):
        said = viewed.read(
            "SELECT c.relname, a.attname, col_description(c.oid, a.attnum), obj_description(c.oid, 'pg_class')"
            " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
            f" WHERE c.relnamespace = '{viewed.place.vault}_{schema}'::regnamespace"
        )
        assert {view for view, *_ in said} == {
            "documents",
            "passages",
            "links",
            "ranks",
            "proposals",
            "history",
        }
        assert [(view, column) for view, column, what, whole in said if not what or not whole] == []
