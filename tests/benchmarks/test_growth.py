import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.growth import chart, ratios, worse
from benchmarks.made_up import write_vault

positive = st.floats(1e-3, 1e6)
SVG = "{http://www.w3.org/2000/svg}"


def test_a_figure_grows_from_each_size_to_the_next():
    figures = {100: {"commit, ms": 8.0}, 10: {"commit, ms": 4.0}, 1000: {"commit, ms": 40.0}}
    assert ratios(figures) == {"commit, ms: 100 / 10 notes": 2.0, "commit, ms: 1000 / 100 notes": 5.0}


def test_what_was_measured_at_one_size_alone_has_no_ratio():
    assert ratios({10: {"search, ms": 4.0}, 100: {"commit, ms": 4.0}}) == {}


def test_what_was_measured_minutes_apart_has_no_ratio():
    figures = {"words of 1,000 notes, s": 1.0, "scan of 1,000 unchanged notes, ms": 2.0}
    assert ratios({10: figures, 100: figures}) == {"scan of 1,000 unchanged notes, ms: 100 / 10 notes": 1.0}


def test_what_is_a_ratio_already_is_compared_at_every_size():
    assert ratios({10: {"index / bare embedding": 1.5}}) == {"index / bare embedding: 10 notes": 1.5}


@given(st.dictionaries(st.text(), positive))
def test_a_record_is_never_worse_than_itself(record):
    assert worse(record, record) == []


@given(st.dictionaries(st.text(), positive, min_size=1), st.data())
def test_the_one_ratio_that_is_more_than_a_quarter_above_is_named(record, data):
    name = data.draw(st.sampled_from(sorted(record)))
    (line,) = worse(record | {name: record[name] * 1.26}, record)
    assert line.startswith(f"{name}: ")
    assert worse(record | {name: record[name] * 1.24}, record) == []


def test_what_only_one_of_two_records_has_is_not_compared():
    assert worse({"commit": 9.0}, {"search": 1.0}) == []


@given(st.lists(st.fixed_dictionaries({"a, ms": positive, "b, s": positive}), min_size=2, max_size=4))
def test_a_chart_has_a_line_for_each_time_and_one_for_proportional_growth(of_sizes):
    drawn = ET.fromstring(chart({10**n: figures for n, figures in enumerate(of_sizes, 3)}))  # noqa: S314 - ours
    lines = drawn.findall(f"{SVG}polyline")
    assert len(lines) == 3
    assert {len(line.get("points").split()) for line in lines} == {len(of_sizes)}


def test_two_vaults_of_a_size_are_the_same_and_a_larger_one_begins_with_the_smaller(tmp_path):
    for name, notes in (("one", 120), ("other", 120), ("larger", 150)):
        write_vault(tmp_path / name, notes)
    one, other, larger = (
        {file.name: file.read_text() for file in (tmp_path / name).rglob("*.md")}
        for name in ("one", "other", "larger")
    )
    assert one == other
    assert len(larger) == 150
    assert one.items() <= larger.items()


def test_every_link_of_a_made_vault_means_an_earlier_note_or_the_first(tmp_path):
    write_vault(tmp_path, 50)
    for n in range(50):
        text = (tmp_path / "000" / f"note-{n}.md").read_text()
        linked = [int(link.split("]]")[0]) for link in text.split("[[note-")[1:]]
        assert len(linked) == 2
        assert max(linked) <= max(0, n - 1)
