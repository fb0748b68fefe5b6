"""Editing a taxonomy makes exactly the intended change, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import TaxonomyError
from pipelines.tagging.vocabulary import add_rename, add_tag, find, parse, without_renames

TEXT = """\
# Finance

Prose about it.

## Valuation

- valuation: what it is worth (aliases: worth, fair-value)
- dcf (retired)

## Renames

- value -> valuation
- discounted -> dcf
"""


def test_a_tag_is_added_at_the_end_of_its_group():
    assert add_tag(TEXT, "new", "valuation") == TEXT.replace("- dcf (retired)\n", "- dcf (retired)\n- new\n")


def test_a_tag_without_a_group_goes_to_new_before_the_renames():
    once = add_tag(TEXT, "one")
    assert once == TEXT.replace("## Renames", "## New\n\n- one\n\n## Renames")
    assert add_tag(once, "two") == once.replace("- one\n", "- one\n- two\n")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "## New\n\n- new\n"),
        ("prose", "prose\n\n## New\n\n- new\n"),
        ("## New", "## New\n\n- new\n"),
        ("## New\r\n\r\nprose\r\n", "## New\r\n\r\nprose\r\n\r\n- new\r\n"),
        ("## New\r* a\r\r# B\r- b", "## New\r* a\r* new\r\r# B\r- b"),
        ("## New\n- a: x\n\n  more of it\n\n- b", "## New\n- a: x\n\n  more of it\n\n- b\n- new\n"),
    ],
)
def test_a_tag_is_added_to_any_text_and_every_other_byte_stays(text, after):
    assert add_tag(text, "new") == after


@pytest.mark.parametrize("name", ["valuation", "Fair-value", "DCF"])
def test_what_is_there_already_is_not_added(name):
    assert add_tag(TEXT, name) == TEXT


@pytest.mark.parametrize(
    ("tag", "group"),
    [("two words", None), ("a\n- b", None), ("", None), ("1984", None), ("a", "Renames"), ("a", "x\ny")],
)
def test_what_cannot_be_added_is_refused(tag, group):
    with pytest.raises(TaxonomyError):
        add_tag(TEXT, tag, group)


def test_renames_that_were_applied_are_cut_out():
    assert without_renames(TEXT, [("VALUE", "valuation")]) == TEXT.replace("- value -> valuation\n", "")
    assert without_renames(TEXT, parse(TEXT).renames).endswith("## Renames\n\n")


def test_a_rename_that_leads_elsewhere_now_was_not_applied():
    assert without_renames(TEXT, [("value", "dcf"), ("other", "dcf")]) == TEXT


def test_a_tag_that_was_renamed_away_loses_its_item_and_what_is_nested_in_it_its_name():
    text = "- a: old # words\n- a/x: nested a\n- a/y\n- b/y\n- b: new (aliases: c)\n\n# Renames\n- a -> b\n"
    assert (
        without_renames(text, [("a", "b")]) == "- b/x: nested a\n- b/y\n- b: new (aliases: c)\n\n# Renames\n"
    )


def test_a_change_of_case_keeps_its_item():
    text = "- moat: x\n# Renames\n- Moat -> moat\n"
    assert without_renames(text, [("Moat", "moat")]) == "- moat: x\n# Renames\n"


def test_a_chain_is_cut_out_as_a_whole():
    text = "- c: x\n# Renames\n- a -> b\n- b -> c\n"
    assert without_renames(text, parse(text).renames) == "- c: x\n# Renames\n"


def test_lists_that_cannot_be_cut_are_left_for_a_person():
    with pytest.raises(TaxonomyError, match="by hand"):
        without_renames("- a: x\n    - b: y\n\n# Renames\n- a -> b\n", [("a", "b")])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_stay(end):
    text = TEXT.replace("\n", end)
    assert without_renames(text, parse(text).renames) == without_renames(TEXT, parse(TEXT).renames).replace(
        "\n", end
    )
    assert add_tag(text, "new") == add_tag(TEXT, "new").replace("\n", end)


def test_a_rename_to_a_known_tag_is_the_last_of_the_list():
    assert add_rename(TEXT, "old", "dcf") == f"{TEXT}- old -> dcf\n"
    assert add_rename("- a: x\n", "old", "A") == "- a: x\n\n## Renames\n\n- old -> A\n"


def test_a_new_name_takes_the_place_of_the_old_tag_with_its_description():
    after = add_rename(TEXT, "Valuation", "price")
    assert "- price: what it is worth (aliases: worth, fair-value)\n" in after
    assert ("Valuation", "price") in parse(after).renames
    assert find(parse(without_renames(after, parse(after).renames)), "price")


def test_a_new_name_of_a_tag_that_only_notes_have_is_added_to_the_vocabulary():
    after = add_rename("", "dirt", "soil")
    assert (parse(after).renames, find(parse(after), "soil").group) == ((("dirt", "soil"),), "New")


def test_a_rename_that_is_listed_is_not_listed_twice():
    assert add_rename(TEXT, "VALUE", "Valuation") == TEXT


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("value", "dcf", "already renamed"),
        ("old", "worth", "an alias of 'valuation'"),
        ("old", "two words", "is not a tag"),
        ("1", "dcf", "is not a tag"),
        ("dcf", "dcf", "renamed to itself"),
        ("valuation", "value", "leads back to itself"),
    ],
)
def test_a_rename_that_cannot_be_is_refused_with_the_reason(old, new, why):
    with pytest.raises(TaxonomyError, match=why):
        add_rename(TEXT, old, new)


@given(
    st.lists(
        st.sampled_from(["- a: x", "- b", "  - c: y", "prose", "", "## G", "## New", "> q", "```", "%%"]),
        max_size=8,
    )
)
def test_a_tag_is_only_inserted_or_refused(lines):
    text = "\n".join(lines)
    try:
        after = add_tag(text, "new")
    except TaxonomyError:
        return
    rest = iter(after)
    assert all(character in rest for character in text)
    assert find(parse(after), "new")
