"""A hit says whether its file changed since it was indexed, and shows whole sentences."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from pipelines.domains import load
from pipelines.question import read_question
from pipelines.search.excerpts import split_sentences
from pipelines.search.find import excerpts, find
from pipelines.search.fusion import Found, NoteHit
from pipelines.search.rank import Source


def asked(house, query, *, present=True):
    (domain,) = load(house.root).domains
    source = Source(domain, house.cache, house.embedder._embedder.encode_query(query))
    found, failed = find(
        [source], read_question(query), 10, root=house.root, present=present, now=datetime.now(UTC)
    )
    assert not failed
    return {one.hit.path: one.stale for one in found}


@pytest.fixture
def filled(house):
    for name in ("same.md", "longer.md", "touched.md", "gone.md", "noticed.md"):
        house.write(name, f"The garden of {name}.")
    house.index()
    return house


def test_a_hit_is_stale_where_the_file_is_not_as_it_was_indexed(filled):
    before = (filled.root / "longer.md").stat()
    filled.write("longer.md", "The garden is longer now.")
    os.utime(filled.root / "longer.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    touched = (filled.root / "touched.md").stat()
    os.utime(filled.root / "touched.md", ns=(touched.st_atime_ns, touched.st_mtime_ns + 10**9))
    (filled.root / "gone.md").unlink()
    filled.write("noticed.md", "What the watcher noticed is pending.")
    filled.notice("noticed.md")
    assert asked(filled, "garden") == {
        "same.md": False,
        "longer.md": True,
        "touched.md": True,
        "noticed.md": True,
    }


def test_a_note_that_is_ignored_from_now_on_is_no_hit_although_it_is_not_removed_yet(filled):
    filled.write(".everindexignore", "touched.md\n")
    filled.reconcile()
    assert filled.cache.passages.chunks_of("touched.md")
    assert asked(filled, "garden").keys() == {"same.md", "longer.md", "gone.md", "noticed.md"}


def test_while_the_vault_is_unavailable_no_hit_is_left_out_and_none_is_called_changed(filled):
    (filled.root / "gone.md").unlink()
    assert asked(filled, "garden", present=False) == dict.fromkeys(
        ("same.md", "longer.md", "touched.md", "gone.md", "noticed.md"), None
    )


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        ("Bare.md", "", "Bare"),
        ("***.md", " \n", "***"),
        ("%%x%%.md", "---\nrating: 3\n---\n", "%%x%%"),
        ("Told.md", "---\ndescription: What it is for.\n---\n", "Told … What it is for."),
        ("Embeds.md", "# What\n\n![[Tasks.base]]\n![[Notes.base]]\n", "![[Tasks.base]] ![[Notes.base]]"),
    ],
)
def test_the_excerpt_of_a_note_without_text_is_its_title_and_its_description_or_its_embeds(
    house, path, text, shown
):
    house.write(path, text)
    house.index()
    (domain,) = load(house.root).domains
    source = Source(domain, house.cache, house.embedder._embedder.encode_query("what"))
    found, _ = find([source], read_question("what"), 10, root=house.root, present=True, now=datetime.now(UTC))
    ((cut, _),) = excerpts(found, read_question("what"), {})
    assert cut.text == shown


def test_a_sentence_at_the_edge_of_a_passage_is_shown_whole(house):
    sentences = [
        f"The bed number {n} has beans {'and peas ' * (n % 4)}that were sown in week {n} of the year."
        for n in range(60)
    ]
    house.write("Beds.md", "# Beds\n\n" + " ".join(sentences))
    house.index()
    chunks = house.cache.passages.chunks_of("Beds.md")
    assert len(chunks) > 2
    around = house.cache.passages.text_around([chunk.chunk_id for chunk in chunks], 400)
    cuts = 0
    for chunk in chunks:
        one = Found(
            "d", NoteHit("Beds.md", chunk.chunk_id, {}), chunk, {}, None, None, around=around[chunk.chunk_id]
        )
        own = split_sentences(chunk.text)
        for at in (0, len(own) - 1):
            # The sentences of a passage that begin or end it are the most similar ones.
            chosen = [float(n == at) for n in range(len(own))]
            ((cut, _),) = excerpts([one], read_question("beans"), {"d": lambda *_, chosen=chosen: chosen})
            assert set(cut.text.split(" … ")) <= set(sentences)
            cuts += own[at].text not in sentences
            assert all(0 <= start < end <= len(chunk.text) for start, end in cut.sentences)
    assert cuts
