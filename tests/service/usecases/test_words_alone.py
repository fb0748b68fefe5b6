"""A domain with `embedding: none`: found by words, with nothing owed, and no model loaded."""

import numpy as np
import pytest

from pipelines.errors import ModelUnavailableError, NotComparableError
from pipelines.model import TagEntry, Taxonomy
from pipelines.question import read_question
from pipelines.tagging.propose import fit_local, word_vector
from queue_config.settings import Settings
from service.usecases.links import Traversal
from service.usecases.maintenance import index_once, rebuild_caches, verify_caches
from service.usecases.search import View
from service.usecases.titles import TitleSearch
from workers.resources import Resources

NOTES = {
    "Soil.md": "# Soil\n\nCompost feeds the soil of a garden, see [[Bread]].\n",
    "Bread.md": "# Bread\n\nFlour, water and salt make bread.\n",
    "Boat.md": "# Boat\n\nA boat sails down the river.\n",
}


def open_vault(vault, tmp_path, **settings):
    return Resources(Settings(vault=vault, state=tmp_path / "state", **settings))


@pytest.fixture
def resources(vault, tmp_path):
    for name, text in NOTES.items():
        (vault / name).write_text(text)
    (vault / "_domains.yaml").write_text("notes: {legacy: true, embedding: none}\n")
    made = open_vault(vault, tmp_path)
    index_once(made, lambda *_: None)
    return made


@pytest.fixture
def view(resources):
    return View(resources, wait_for_model=True)


def cache_of(resources):
    (domain,) = resources.domains()
    return resources.cache(domain)


def test_notes_are_found_by_words_and_the_answer_says_so(view):
    answer = view.search(read_question("compost for a garden"), 3)
    assert answer.results[0].path == "Soil.md"
    assert answer.index.by_words
    assert answer.index.model_ready
    assert view.search(read_question("quantum physics"), 3).results == []


def test_nothing_is_owed_and_nothing_was_loaded(resources, view):
    view.search(read_question("compost"), 3)
    counts = cache_of(resources).counts()
    assert (counts.chunks, counts.vectors, counts.vectors_pending, counts.pending) == (3, 0, 0, 0)
    assert not cache_of(resources).leases.has_pending("vectors")
    assert resources.embedders._loaded == {}


def test_a_changed_note_is_found_and_a_removed_one_is_not(vault, resources, view):
    (vault / "Soil.md").write_text("# Soil\n\nWorms live in it.\n")
    (vault / "Boat.md").unlink()
    index_once(resources, lambda *_: None, confirmed=True)
    assert view.search(read_question("worms"), 3).results[0].path == "Soil.md"
    assert view.search(read_question("sails"), 3).results == []


def test_the_index_is_as_one_made_from_scratch(resources):
    assert [verdict.differences for verdict in verify_caches(resources).values()] == [()]


def test_what_compares_meanings_says_that_there_are_none(resources, view):
    assert "embedding: none" in TitleSearch(view).similar("Soil.md", 3).reason
    with pytest.raises(NotComparableError, match="embedding: none"):
        Traversal(view).traverse("Soil.md", 2, read_question(""))
    with pytest.raises(ModelUnavailableError, match="found by words alone"):
        resources.embedders.get("none")


@pytest.mark.usefixtures("resources")
def test_a_model_is_chosen_later_and_left_again(vault, tmp_path, tiny_model):
    for embedding, vectors in ((str(tiny_model), 3), ("none", 0)):
        changed = open_vault(vault, tmp_path, embedding_model=embedding)
        rebuild_caches(changed, lambda *_: None, only_other_models=True)
        assert cache_of(changed).counts().vectors == vectors


def test_tags_are_proposed_by_the_words_that_notes_share(resources):
    vocabulary = Taxonomy(
        (TagEntry("garden", "", "Compost, soil, beds"), TagEntry("kitchen", "", "Flour, bread, oven"))
    )
    proposer = fit_local(cache_of(resources), vocabulary, lambda _: pytest.fail("a model was asked for"))
    assert proposer is not None


def test_texts_that_share_words_have_near_vectors():
    one, near, far = map(word_vector, ("soil and compost", "Compost feeds soil", "a boat on a river"))
    assert one @ near > 0.5 > one @ far
    assert np.linalg.norm(one) == pytest.approx(1)
    assert not word_vector("").any()
