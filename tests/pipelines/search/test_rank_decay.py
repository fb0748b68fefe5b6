import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model import Decay, Kind, NoteFacts
from pipelines.search.rank import decay_weights

LADDER = (1.0, 0.6, 0.45, 0.35, 0.25)
ON = Decay(mode="ranked_grouped", ladder=LADDER)
FILINGS = Decay(mode="ranked_grouped", ladder=LADDER, kind_overrides={"Filings": Kind((1.0, 0.6))})


def note(path, published=None, author=None, kind=None, *, evergreen=False):
    file = "2026-01-01T00:00:00+00:00"
    return NoteFacts(path, author, kind, published, file, file, evergreen, None, None)


def test_an_authors_notes_step_down_the_ladder_newest_first():
    notes = [note(f"{month}.md", f"2026-{month:02}-01", "Ann") for month in range(1, 8)]
    weights = decay_weights(notes, ON)
    assert [weights[f"{month}.md"] for month in range(7, 0, -1)] == [1.0, 0.6, 0.45, 0.35, 0.25, 0.25, 0.25]


def test_each_author_has_a_first_place():
    notes = [note("a.md", "2020-01-01", "Ann"), note("b.md", "2026-01-01", "Bob")]
    assert decay_weights(notes, ON) == {"a.md": 1.0, "b.md": 1.0}


def test_an_author_is_the_same_in_any_case():
    notes = [note("a.md", "2020-01-01", "Ann Lee"), note("b.md", "2026-01-01", "ann lee")]
    assert decay_weights(notes, ON) == {"a.md": 0.6, "b.md": 1.0}


def test_notes_without_an_author_are_not_compared():
    notes = [note("a.md", "2020-01-01"), note("b.md", "2026-01-01")]
    assert decay_weights(notes, ON) == {"a.md": 1.0, "b.md": 1.0}


def test_an_evergreen_note_keeps_its_score_and_takes_no_position():
    notes = [note("new.md", "2026-01-01", "Ann", evergreen=True), note("old.md", "2020-01-01", "Ann")]
    assert decay_weights(notes, ON) == {"new.md": 1.0, "old.md": 1.0}


def test_a_note_without_a_date_is_its_authors_oldest():
    notes = [note("a.md", None, "Ann"), note("b.md", "1969-01-01", "Ann")]
    assert decay_weights(notes, ON) == {"a.md": 0.6, "b.md": 1.0}


def test_a_date_and_times_in_zones_are_compared_as_moments():
    notes = [
        note("midnight.md", "2026-03-01", "Ann"),
        note("later.md", "2026-03-01T02:00:00+01:00", "Ann"),
        note("earlier.md", "2026-03-01T01:00:00+02:00", "Ann"),
    ]
    assert decay_weights(notes, ON) == {"later.md": 1.0, "midnight.md": 0.6, "earlier.md": 0.45}


def test_filings_are_grouped_by_folder_on_their_own_ladder():
    notes = [
        note("Filings/ACME/q3.md", "2026-09-30", "ACME"),
        note("Filings/ACME/q2.md", "2026-06-30", "ACME"),
        note("Filings/ACME/q1.md", "2026-03-31", "ACME"),
        note("Filings/BETA/q1.md", "2026-03-31", "ACME"),
    ]
    weights = decay_weights(notes, FILINGS)
    assert list(weights.values()) == [1.0, 0.6, 0.6, 1.0]


def test_a_notes_own_kind_goes_before_its_folder():
    letter = note("Filings/ACME/letter.md", "2020-01-01", "Ann", kind="Letter")
    filing = note("Letters/q3.md", "2026-01-01", "Ann", kind="Filings")
    assert decay_weights([letter, filing], FILINGS) == {"Letters/q3.md": 1.0, "Filings/ACME/letter.md": 1.0}


def test_the_top_folder_is_the_one_below_the_domains_own():
    notes = [note("money/Filings/b.md", "2026-01-01"), note("money/Filings/a.md", "2025-01-01")]
    weights = decay_weights(notes, FILINGS, "money")
    assert weights == {"money/Filings/b.md": 1.0, "money/Filings/a.md": 0.6}


def test_switched_off_nothing_decays():
    notes = [note("a.md", "2020-01-01", "Ann"), note("b.md", "2026-01-01", "Ann")]
    assert decay_weights(notes, Decay()) == {"a.md": 1.0, "b.md": 1.0}


NOTES = st.lists(
    st.builds(
        note,
        st.from_regex(r"\A[a-c]/[a-z]\.md\Z"),
        st.one_of(
            st.none(), st.dates().map(lambda d: d.isoformat()), st.datetimes().map(lambda d: d.isoformat())
        ),
        st.sampled_from([None, "Ann", "Bob"]),
        st.sampled_from([None, "Filings"]),
        evergreen=st.booleans(),
    ),
    unique_by=lambda n: n.path,
    max_size=12,
)


@given(NOTES, st.randoms())
def test_weights_do_not_depend_on_the_order_of_the_candidates(notes, random):
    mixed = list(notes)
    random.shuffle(mixed)
    assert decay_weights(mixed, FILINGS) == decay_weights(notes, FILINGS)


@given(NOTES)
def test_every_weight_is_on_a_ladder_and_every_group_has_a_first(notes):
    weights = decay_weights(notes, FILINGS)
    assert weights.keys() == {n.path for n in notes}
    assert set(weights.values()) <= set(LADDER)
    for author in {n.author for n in notes if n.author}:
        group = [n for n in notes if n.author == author and not n.evergreen and n.kind != "Filings"]
        assert not group or max(weights[n.path] for n in group) == 1.0


@given(NOTES)
def test_a_newer_note_of_a_group_never_counts_less(notes):
    weights = decay_weights(notes, ON)
    dated = [n for n in notes if n.author and not n.evergreen and n.created and "T" not in n.created]
    for one in dated:
        for other in dated:
            if one.author == other.author and one.created > other.created:
                assert weights[one.path] >= weights[other.path]


def test_a_ladder_may_end_in_nothing():
    notes = [note("a.md", "2020-01-01", "Ann"), note("b.md", "2026-01-01", "Ann")]
    assert decay_weights(notes, Decay("ranked_grouped", (1.0, 0.0))) == pytest.approx(
        {"b.md": 1.0, "a.md": 0.0}
    )
