"""What an agent does not see changes nothing that it gets: the vault answers as if it had no private notes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipelines.filters import parse_filters
from queue_config.settings import Settings
from service.mcp import notes as browsing
from service.mcp import schemas, search, tools
from service.mcp.library import Library
from service.usecases.browsing import Browsing, list_notes
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.service.mcp.conftest import write
from workers.resources import Resources

WORDS = ("garden", "soil", "compost", "river", "boat", "sail", "market", "price", "bread", "flour", "sleep")
HAS = ("link", "backlink", "broken-link", "tag", "alias", "task")
DOMAINS = {"": "", "by rank": "notes: {legacy: true, fusion: rrf}\n"}

text_of = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


@st.composite
def vaults(draw):
    """Return public and private notes that share words, tags, titles and aliases, and link to each other."""
    size, unseen = draw(st.integers(4, 14)), draw(st.integers(1, 10))
    stems = [f"n{number}" for number in range(size + unseen)]

    def note(stem, head):
        links = draw(st.lists(st.sampled_from([*stems, "nowhere"]), max_size=5))
        title = draw(st.sampled_from([stem, *WORDS]))
        alias = draw(st.sampled_from(WORDS))
        task = draw(st.sampled_from(["", "\n- [ ] later\n"]))
        written = " ".join(f"[[{link}]]" for link in links if link != stem)
        return (
            f"---\ntitle: {title}\naliases: [{alias} {stem}]\ntags: [{alias}]\n{head}---\n"
            f"# {title}\n\n{draw(text_of)} {written}\n{task}\n## {alias}\n\n{draw(text_of)}.\n"
        )

    public = {f"Open/{stem}.md": note(stem, "") for stem in stems[:size]}
    private = {f"Own/{stem}.md": note(stem, "private: true\n") for stem in stems[size:]}
    return public, private


def library(base, notes, model):
    write(base / "vault", notes)
    for path in notes:
        os.utime(base / "vault" / path, (1_700_000_000, 1_700_000_000))
    opened = Resources(Settings(vault=base / "vault", state=base / "state", embedding_model=str(model)))
    index_once(opened, lambda *_: None)
    questions = View(opened, wait_for_model=True)
    return Library(questions)


def told(library, public, queries):
    """Yield each question of an agent with its answer, without the state of the index."""

    def plain(answer):
        return answer.model_dump(exclude={"freshness", "cursor", "warnings"})

    filtered = [{}, *({"has": [what]} for what in HAS), {"tag": ["garden"]}]
    for query in queries:
        for filters in filtered:
            yield (
                f"search {query} {filters}",
                plain(search.search(library, schemas.Search(query=query, limit=50, **filters))),
            )
        yield f"context {query}", plain(search.context(library, schemas.Context(question=query)))
        walk = schemas.Traverse(question=query, deep=True)
        yield f"deep {query}", plain(search.traverse(library, walk))
        yield f"names {query}", library.titles(query, 10)
    for what in HAS:
        listed = list_notes(library.view, parse_filters([("has", what)]), "path")
        yield f"list has={what}", listed
    start = Browsing(library.view).start()
    yield "most linked", {note.path: note.links for note in start.most_linked}
    for by in ("folder", "tag", "recent"):
        yield f"browse {by}", plain(browsing.browse(library, schemas.Browse(by=by)))
    for path in public:
        for by in ("similar", "backlinks"):
            asked = schemas.Browse(by=by, of=path)
            yield f"browse {by} {path}", plain(browsing.browse(library, asked))
        walk = schemas.Traverse(note=path, depth=3)
        yield f"traverse {path}", plain(search.traverse(library, walk))
        yield f"similar {path}", plain(tools.similar(library, tools.Similar(note=path)))


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("domains", DOMAINS)
@settings(
    max_examples=5,
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # each example indexes two vaults; making one small is slow
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(notes=vaults(), queries=st.lists(text_of, min_size=2, max_size=3))
def test_private_notes_change_nothing_that_an_agent_gets(tiny_model, domains, in_memory, notes, queries):
    public, private = notes
    config = {"_domains.yaml": DOMAINS[domains]} if DOMAINS[domains] else {}
    with tempfile.TemporaryDirectory() as base:
        with_private = library(Path(base, "a"), config | public | private, tiny_model)
        without = library(Path(base, "b"), config | public, tiny_model)
        if in_memory:
            for one in (with_private, without):
                one.view.load_models()
                one.view.follow_commits()
        pairs = zip(told(with_private, public, queries), told(without, public, queries), strict=True)
        for (asked, own), (_, wanted) in pairs:
            assert own == wanted, asked
