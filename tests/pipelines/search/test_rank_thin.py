"""A list of links below a note's text counts less, and so do the names of a note without text.

An index of links, and what the question names, do not.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.question import read_question
from pipelines.search.rank import MOSTLY_LINKS, lessen_thin, share_of_links
from tests.pipelines.conftest import housed

LIST = "- [[Heron Letter 2024]]\n- [Heron letter](https://heron.example/letters/2024)\n- https://heron.example/2023\n"
PROSE = "The heron is patient, and so is whoever learns to write from watching it. It says little, and that slowly.\n"
NOTES = {
    "Principles.md": f"# Principles\n\n{PROSE}\n## Sources\n\n{LIST}",
    "Prinzipien.md": f"# Prinzipien\n\n{PROSE}\n## Quellen\n\n{LIST}",
    "Birds.md": f"# Birds\n\n{LIST}\n## More\n\n{LIST}",
    "Letters.md": f"# Letters\n\n{PROSE}\n## Where\n\n- Letter: [[Heron Letter 2024]]\n- Ann Heron\n",
    "Herons.md": "---\ndescription: Birds that are patient\n---\n",
    "Seen.md": f"# Seen\n\n{PROSE}\n## Where\n\nNear [[Lake]], as [[Heron Letter 2024]] says: {PROSE}",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory, tiny_embedder):
    with housed(tmp_path_factory.mktemp("lists"), tiny_embedder, NOTES) as house:
        yield house.cache


def lost(cache, query, signal="link_list"):
    """Return the sections that lose by a signal, of all notes' chunks with an equal score."""
    chunks = [chunk for path in NOTES for chunk in cache.passages.chunks_of(path)]
    fused = lessen_thin(
        cache, read_question(query), [(chunk.chunk_id, {"meaning": 0.4, "words": 0.1}) for chunk in chunks]
    )
    assert [sum(s.values()) for _, s in fused] == sorted((sum(s.values()) for _, s in fused), reverse=True)
    assert {i for i, _ in fused} == {chunk.chunk_id for chunk in chunks}
    by_id = {chunk.chunk_id: (chunk.path, chunk.section) for chunk in chunks}
    return {by_id[i] for i, signals in fused if signals.get(signal, 0.0) < 0.0}


def test_a_list_of_links_below_text_loses_in_any_language_and_an_index_does_not(cache):
    lists = {("Principles.md", "Sources"), ("Prinzipien.md", "Quellen"), ("Letters.md", "Where")}
    assert lost(cache, "heron letter") == lists


@pytest.mark.parametrize(("query", "kept"), [("sources", "Sources"), ("principles of writing", "Sources")])
def test_a_list_whose_note_or_section_is_asked_for_keeps_its_score(cache, query, kept):
    assert kept not in {section for _, section in lost(cache, query)}


def test_a_note_without_text_counts_less_than_text(cache):
    assert lost(cache, "how patient herons are", "no_text") == {("Herons.md", "Herons")}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain.",
        "![[a.png]] ![b](b.png)",
        "See [[A]] for what is said of it here.",
        "a[i](j) //",
        "## Shopping\n\n- milk and a lot of eggs\n- [[Bread]]",
        "## Names\n\n- Matthew Walker\n- Nick Littlehales",
        "- [[Butter]]\n- Mehl\n- Eier\n- Milch\n- Zucker und Salz",
        "- [ ] call [[Anna]] tomorrow",
        "- See [[Anna]]: what she says of sleep is the long story of a short night",
    ],
)
def test_a_text_is_no_list_of_links(text):
    assert share_of_links(text) < MOSTLY_LINKS


@pytest.mark.parametrize(
    "text",
    [
        "## Sources\n\n- [[Heron Letter 2024#Coffee, wine and supper]]",
        "- Book: [The Patient Bird](https://heron.example)\n- Matthew Walker\n- Anna van der Berg, J. Doe\n",
        "1. **Quelle:** [[Der Reiher]]\n2. Émile Zola",
    ],
)
def test_a_link_with_its_label_and_names_are_a_list_of_links(text):
    assert share_of_links(text) >= MOSTLY_LINKS


@given(
    st.lists(
        st.sampled_from(["[[A note]]", "[a](b.md)", "[a b](https://a.b/c_(d))", "https://a.b/c"]), min_size=1
    )
)
def test_a_list_of_nothing_else_is_one(links):
    assert share_of_links("## See also\n\n" + "\n".join(f"- {link}" for link in links)) >= MOSTLY_LINKS
