"""Proposals that never leave the machine: only tags that the vault's own notes make likely."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.model import TagEntry, Taxonomy
from pipelines.tagging.local import (
    FEWEST_TAGGED,
    GUESSED,
    MOST,
    THRESHOLD,
    EmbeddedNote,
    LocalProposer,
    tag_text,
)

DIMENSION = 32
TOPICS = ("garden", "cooking", "physics", "music", "sailing", "chess")


def unit(vector):
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class World:
    """Notes about topics: a topic is a direction, and a note lies about one or two of them."""

    def __init__(self, seed=0, names=TOPICS, spread=0.5):
        self.rng = np.random.default_rng(seed)
        self.spread = spread
        self.topics = {name: unit(self.rng.normal(size=DIMENSION)) for name in names}
        self.taxonomy = Taxonomy(tuple(TagEntry(name, "", "") for name in names))
        self.made = 0

    def note(self, *about, tags=None, **given):
        self.made += 1
        noise = self.spread * self.rng.normal(size=DIMENSION) / np.sqrt(DIMENSION)
        vector = unit(sum(self.topics[name] for name in about) + noise)
        given = {"path": f"n{self.made}.md", "title": f"Note {self.made}", "text": "Words.", **given}
        return EmbeddedNote(vector=vector, tags=tuple(about if tags is None else tags), **given)

    def notes(self, count):
        names = list(self.topics)
        return [
            self.note(*self.rng.choice(names, self.rng.integers(1, 3), replace=False)) for _ in range(count)
        ]

    def fit(self, notes, taxonomy=None):
        return LocalProposer.fit(taxonomy or self.taxonomy, notes, self.topics)


def tags(suggestions):
    return [suggestion.tag for suggestion in suggestions]


# A vault with tagged notes


def test_a_new_note_gets_the_tag_of_its_like():
    world = World()
    proposer = world.fit(world.notes(150))
    for name in TOPICS:
        assert tags(proposer.propose(world.note(name, tags=()))) == [name]


def test_a_note_about_two_things_gets_both_tags():
    world = World()
    proposer = world.fit(world.notes(300))
    found = proposer.propose(world.note("garden", "chess", tags=()))
    assert sorted(tags(found)) == ["chess", "garden"]


def test_a_tag_that_the_note_has_is_not_proposed():
    world = World()
    proposer = world.fit(world.notes(150))
    note = world.note("garden", tags=("GARDEN",))
    assert "garden" not in tags(proposer.propose(note))


def test_tags_that_follow_no_rule_are_not_guessed():
    world = World(spread=8.0)
    notes = [replace(note, tags=(world.rng.choice(TOPICS),)) for note in world.notes(300)]
    proposer = world.fit(notes)
    assert [proposer.propose(world.note(*TOPICS, tags=())) for _ in range(50)] == [()] * 50


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0.5, 1.5, 3.0])
def test_what_is_proposed_is_right_as_often_as_it_says(seed, spread):
    world = World(seed, spread=spread)
    proposer = world.fit(world.notes(300))
    right = [
        suggestion.tag in note.tags
        for note in world.notes(200)
        for suggestion in proposer.propose(replace(note, tags=()))
    ]
    assert len(right) < 20 or np.mean(right) >= THRESHOLD


def test_a_folder_can_say_what_the_text_does_not():
    world = World(spread=8.0)
    notes = [
        replace(world.note(*TOPICS, tags=(name,)), path=f"{name}s/{i}.md")
        for i in range(40)
        for name in ("garden", "chess")
    ]
    proposer = world.fit(notes)
    found = proposer.propose(world.note(*TOPICS, tags=(), path="chesss/new.md"))
    assert tags(found) == ["chess"]


def test_the_folder_speaks_for_a_note_without_text():
    world = World()
    notes = [world.note(name, path=f"{name}s/{i}.md") for i in range(20) for name in TOPICS]
    notes = [replace(note, vector=None) if i % 2 else note for i, note in enumerate(notes)]
    note = EmbeddedNote("musics/empty.md", "Empty", "", None)
    assert tags(world.fit(notes).propose(note)) == ["music"]


def test_a_name_in_the_title_can_say_what_nothing_else_does():
    world = World(spread=8.0)
    notes = [
        world.note(*TOPICS, tags=(name,), title=f"On {name.upper()}, part {i}")
        for i in range(30)
        for name in ("garden", "chess")
    ]
    found = world.fit(notes).propose(world.note(*TOPICS, tags=(), title="More on chess"))
    assert tags(found) == ["chess"]


def test_a_vault_whose_notes_all_have_one_tag_proposes_it():
    world = World(names=("garden",))
    notes = [world.note("garden") for _ in range(60)]
    assert tags(world.fit(notes).propose(world.note("garden", tags=()))) == ["garden"]


@pytest.mark.parametrize("unused", [(), TOPICS], ids=["all in use", "others not in use"])
@pytest.mark.parametrize("used", [("garden",), ("garden", "chess", "music")])
def test_the_few_tags_in_use_are_not_proposed_for_everything_that_has_none(used, unused):
    world = World()
    notes = [world.note(name) for name in used for _ in range(40)]
    notes += [world.note(*world.rng.choice(TOPICS, 2), tags=()) for _ in range(90)]
    vocabulary = dict.fromkeys((*used, *unused))
    proposer = world.fit(notes, Taxonomy(tuple(TagEntry(name, "", "") for name in vocabulary)))
    assert [proposer.propose(note) for note in notes if not note.tags] == [()] * 90


# Notes that have tags


@pytest.mark.parametrize("spread", [0.5, 1.5, 2.0])
def test_a_completely_tagged_vault_gets_no_proposals_for_its_notes(spread):
    world = World(spread=spread)
    notes = world.notes(300)
    proposer = world.fit(notes)
    assert [proposer.propose(note) for note in notes] == [()] * 300


@pytest.mark.parametrize("seed", range(3))
def test_where_tags_were_forgotten_they_are_found(seed):
    world = World(seed)
    full = [world.note(*world.rng.choice(TOPICS, 2, replace=False)) for _ in range(600)]
    shown = [replace(n, tags=tuple(t for t in n.tags if world.rng.random() > 0.2)) for n in full]
    proposer = world.fit(shown)
    lost = {n.path: set(n.tags) - set(s.tags) for n, s in zip(full, shown, strict=True) if s.tags}
    found = {note.path: tags(proposer.propose(note)) for note in shown if note.tags}
    right = sum(len(lost[path].intersection(some)) for path, some in found.items())
    assert right >= THRESHOLD * sum(map(len, found.values()))
    assert right > 0


# Few tagged notes, and tags that no note has


@pytest.mark.parametrize("tagged", [0, 1, FEWEST_TAGGED - 1])
def test_with_few_tagged_notes_a_tag_that_is_named_and_nearest_is_guessed(tagged):
    world = World()
    proposer = world.fit([world.note("garden") for _ in range(tagged)])
    (said,) = proposer.propose(world.note("chess", tags=(), text="A game of chess."))
    (titled,) = proposer.propose(world.note("chess", tags=(), title="Chess"))
    assert (said.tag, titled.tag) == ("chess", "chess")
    assert GUESSED <= said.confidence < titled.confidence < 0.9
    assert proposer.propose(world.note("chess", tags=(), text="A game.")) == ()


def test_each_of_two_tags_that_a_note_names_and_is_about_is_guessed():
    world = World(spread=0.2)
    proposer = world.fit([world.note("garden", "cooking", tags=()) for _ in range(8)] + world.notes(10))
    found = proposer.propose(world.note("chess", "music", tags=(), text="Chess with music."))
    assert sorted(tags(found)) == ["chess", "music"]


def test_a_word_in_passing_is_no_guess():
    world = World()
    proposer = world.fit(world.notes(10))
    assert "chess" not in tags(proposer.propose(world.note("garden", tags=(), text="No chess today.")))


def test_similar_notes_help_to_guess_a_tag_that_is_named():
    world = World()
    proposer = world.fit([world.note("chess") for _ in range(10)])
    (named,) = proposer.propose(world.note("chess", tags=(), text="A game of chess."))
    assert named.confidence > 0.7


def test_a_note_whose_author_chose_tags_gets_no_guess():
    world = World()
    proposer = world.fit([])
    note = world.note("chess", "garden", tags=("garden",), text="A game of chess.")
    assert proposer.propose(note) == ()


def test_a_domains_threshold_decides_which_guesses_are_proposed():
    world = World()
    proposer, note = world.fit([]), world.note("chess", tags=(), text="A game of chess.")
    (found,) = proposer.propose(note, 0.3)
    assert proposer.propose(note, found.confidence) == (found,)
    assert proposer.propose(note, found.confidence + 0.01) == ()


@pytest.mark.parametrize("threshold", [0.5, 0.9])
def test_a_domains_threshold_decides_what_is_proposed_of_what_was_learnt(threshold):
    world = World(spread=1.5)
    proposer = world.fit(world.notes(300))
    found = [one for note in world.notes(50) for one in proposer.propose(replace(note, tags=()), threshold)]
    assert all(one.confidence >= threshold for one in found)
    assert any(one.confidence < THRESHOLD for one in found) == (threshold < THRESHOLD)


def test_a_tag_that_no_note_has_yet_must_be_named_and_nearest():
    world = World()
    notes = [note for note in world.notes(200) if "chess" not in note.tags]
    proposer = world.fit(notes)
    found = proposer.propose(world.note("chess", tags=(), text="A game of chess."))
    assert "chess" in tags(found)
    assert "chess" not in tags(proposer.propose(world.note("chess", tags=(), text="A game.")))


@pytest.mark.parametrize("text", ["chessboard", "a #chess tag", "che ss", ""])
def test_a_name_counts_only_as_whole_words_and_not_as_a_tag(text):
    world = World()
    assert world.fit([]).propose(world.note("chess", tags=(), text=text)) == ()


@pytest.mark.parametrize("text", ["the royal game", "Royal   GAME!", "x (royal-game) y", "今天下棋了"])
def test_another_name_is_as_good(text):
    world = World()
    entries = tuple(TagEntry(name, "", "", ("royal game", "下棋")) for name in ("chess",))
    proposer = world.fit([], Taxonomy(entries))
    assert tags(proposer.propose(world.note("chess", tags=(), text=text))) == ["chess"]


def test_of_a_nested_tag_the_last_part_is_its_name():
    world = World(names=("games/chess", "games/go"))
    found = world.fit([]).propose(world.note("games/chess", tags=(), text="A game of chess."))
    assert tags(found) == ["games/chess"]


# The vocabulary


def test_without_a_vocabulary_nothing_is_proposed():
    world = World()
    proposer = LocalProposer.fit(Taxonomy(), world.notes(50), {})
    assert proposer.propose(world.note("garden", tags=())) == ()


def test_a_retired_tag_is_not_proposed():
    world = World()
    entries = [TagEntry(n, "", "", status="retired" if n == "chess" else "active") for n in TOPICS]
    proposer = world.fit(world.notes(200), Taxonomy(tuple(entries)))
    assert "chess" not in tags(proposer.propose(world.note("chess", tags=(), text="chess")))


def test_a_tag_outside_the_vocabulary_teaches_nothing():
    world = World()
    notes = [replace(note, tags=(*note.tags, "seen")) for note in world.notes(200)]
    assert tags(world.fit(notes).propose(world.note("garden", tags=()))) == ["garden"]


def test_a_note_with_another_name_of_a_tag_has_the_tag():
    world = World()
    entries = tuple(TagEntry(n, "", "", ("schach",) if n == "chess" else ()) for n in TOPICS)
    notes = [
        replace(n, tags=tuple("Schach" if t == "chess" else t for t in n.tags)) for n in world.notes(200)
    ]
    proposer = world.fit(notes, Taxonomy(entries))
    assert tags(proposer.propose(world.note("chess", tags=()))) == ["chess"]
    assert "chess" not in tags(proposer.propose(world.note("chess", tags=("SCHACH",))))


def test_proposals_are_spelled_as_the_vocabulary_spells_them():
    world = World(names=("Gärten/Rosen", "Küche"))
    notes = [world.note(n, tags=(n.casefold(),)) for n in world.topics for _ in range(30)]
    assert tags(world.fit(notes).propose(world.note("Küche", tags=()))) == ["Küche"]


def test_a_tags_text_has_its_names_in_words_and_what_it_means():
    assert tag_text(TagEntry("to-do/今天", "", "", ("TODAY_list",))) == "to do 今 天, TODAY list"
    assert tag_text(TagEntry("garden", "Places", "Beds, soil")) == "garden. Beds, soil"
    assert tag_text(TagEntry("🌱", "", "")) == "🌱"


# Whatever comes


def test_the_same_vault_gives_the_same_proposals():
    found = []
    for _ in range(2):
        world = World(seed=3)
        proposer = world.fit(world.notes(200))
        found.append([proposer.propose(world.note(name, tags=())) for name in TOPICS])
    assert found[0] == found[1]


NAMES = st.sampled_from([*TOPICS, "unknown", "", "#", "a/b"])
NOTES = st.builds(
    EmbeddedNote,
    path=st.sampled_from(["a.md", "x/a.md", "x/y/b.md", "ü/c.md"]),
    title=st.text(max_size=20),
    text=st.text(max_size=40) | st.sampled_from(["chess", "garden and music"]),
    vector=st.none() | st.integers(0, 5).map(lambda i: World().topics[TOPICS[i]]),
    tags=st.lists(NAMES, max_size=4).map(tuple),
)


@settings(max_examples=60)
@given(st.lists(NOTES, max_size=60), NOTES, st.integers(0, len(TOPICS)))
def test_whatever_the_notes_are_proposals_keep_the_rules(notes, note, entries):
    world = World()
    taxonomy = Taxonomy(world.taxonomy.entries[:entries])
    found = world.fit(notes, taxonomy).propose(note)
    assert len(found) <= MOST
    assert set(tags(found)) <= {entry.tag for entry in taxonomy.entries} - set(note.tags)
    confidences = [suggestion.confidence for suggestion in found]
    assert confidences == sorted(confidences, reverse=True)
    assert all(GUESSED <= confidence <= 1 for confidence in confidences)
