"""Phrases that many notes share and no tag covers are suggested, and nothing else."""

import pytest

from pipelines.model import TagEntry, Taxonomy
from pipelines.tagging.vocabulary import missing

SOIL = Taxonomy((TagEntry("soil", "", "", ("earth",)),))


def listed(tagging, taxonomy=SOIL, leave_out=("_taxonomy.md",)):
    return {one.phrase: one.notes for one in missing(tagging.house.cache, taxonomy, leave_out)}


@pytest.fixture
def vault(tagging):
    """Thirty notes about nothing in common."""
    for number in range(30):
        name = "".join(chr(97 + int(digit)) for digit in f"{number:03}")
        tagging.house.save(f"{name}.md", f"# {name}\n\nAlone.\n")
    return tagging


def save(vault, *titles, text="Text."):
    for number, title in enumerate(titles):
        vault.house.save(f"more/{title} {number}.md", f"# {title}\n\n{text}\n")
    vault.house.drain()


def test_a_phrase_that_many_notes_share_is_listed_with_the_notes_that_are_about_it_first(vault):
    save(vault, "Office hours", "More office hours")
    vault.note("a.md", "# Else\n\nSee the office hours.\n")
    (found,) = missing(vault.house.cache, SOIL)
    assert (found.phrase, found.notes) == ("office hours", 3)
    assert found.examples == ("more/More office hours 1.md", "more/Office hours 0.md", "a.md")


def test_what_a_tag_covers_by_any_of_its_names_is_not_missing(vault):
    save(vault, "Soils", "Soils", "Earth", "Earth", text="Soil and earth.")
    assert listed(vault) == {}
    assert listed(vault, Taxonomy()) == {"soils": 4, "earth": 4}


def test_a_word_of_few_notes_is_not_missing(vault):
    save(vault, "Compost", "Compost")
    assert listed(vault) == {}


def test_a_word_of_most_notes_tells_nothing(vault):
    save(vault, *["Compost"] * 15)
    assert listed(vault) == {}


def test_a_word_that_no_title_has_is_not_what_notes_are_about(vault):
    save(vault, "One", "Two", "Three", text="Compost again.")
    assert listed(vault) == {}


def test_stop_words_numbers_and_the_vocabulary_itself_are_no_phrases(vault):
    save(vault, "About the 2026", "About this 2026", "About it 2026")
    assert listed(vault) == {}
