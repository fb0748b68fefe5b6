"""Which file a link means, by the rules that Obsidian was observed to follow."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.notes.links import (
    NOTE_SUFFIXES,
    inner_target,
    link_names_of,
    lookup_key,
    name_key,
    resolve,
    suggest,
    target_name,
)


def meant(target: str, source: str, *paths: str):
    named = defaultdict(list)
    for path in paths:
        for key in {name_key(path), lookup_key(path)}:
            named[key].append(path)
    found = resolve(target, source, lambda name: named.get(name, ()))
    return found.path if found else None


@pytest.mark.parametrize(
    ("target", "source", "paths", "expected"),
    [
        # the path from the vault's root
        ("N", "a/s.md", ["N.md", "a/N.md", "b/N.md"], "N.md"),
        ("b/N", "a/s.md", ["a/b/N.md", "b/N.md"], "b/N.md"),
        ("N.md", "a/s.md", ["N.md"], "N.md"),
        # a note in the source's own folder
        ("N", "a/s.md", ["b/N.md", "a/N.md"], "a/N.md"),
        ("x/N", "a/s.md", ["b/x/N.md", "a/x/N.md"], "a/x/N.md"),
        # the shortest path of that name
        ("N", "a/s.md", ["long/folder/N.md", "b/N.md"], "b/N.md"),
        ("deep/N", "s.md", ["one/two/deep/N.md", "one/deep/N.md", "one/N.md"], "one/deep/N.md"),
        # only whole parts of a path count
        ("deep/N", "s.md", ["xdeep/N.md"], None),
        ("N", "s.md", ["xN.md", "N.md.md"], None),
        # whatever the case and the Unicode form
        ("n", "s.md", ["a/N.md"], "a/N.md"),
        ("CAFE\u0301", "s.md", ["a/caf\u00e9.md"], "a/caf\u00e9.md"),
        ("n", "s.md", ["N.md", "n.md"], "n.md"),
        ("N", "s.md", ["N.md", "n.md"], "N.md"),
        ("caf\u00e9", "s.md", ["cafe\u0301.md", "caf\u00e9.md"], "caf\u00e9.md"),
        ("ΟΔΟΣ", "s.md", ["ΟΔΟΣ.md"], "ΟΔΟΣ.md"),
        ("οδος", "s.md", ["ΟΔΟΣ.md"], "ΟΔΟΣ.md"),
        ("Strasse", "s.md", ["Straße.md"], None),
        # attachments, and names with dots
        ("pic.png", "a/s.md", ["media/pic.png"], "media/pic.png"),
        ("v1.2", "s.md", ["v1.2.md"], "v1.2.md"),
        ("pic", "s.md", ["pic.png"], None),
        ("N", "s.md", ["N.markdown"], "N.markdown"),
        # a place is that place and no other
        ("./N", "a/s.md", ["a/N.md", "N.md"], "a/N.md"),
        ("./N", "a/s.md", ["N.md", "b/N.md"], None),
        ("../N", "a/b/s.md", ["a/N.md", "N.md"], "a/N.md"),
        ("../../N", "a/b/s.md", ["a/N.md", "N.md"], "N.md"),
        ("/N", "a/s.md", ["a/N.md"], None),
        ("/a/N", "s.md", ["a/N.md"], "a/N.md"),
        # nothing leads out of the vault
        ("../N", "s.md", ["N.md"], "N.md"),
        ("../../../N", "a/s.md", ["N.md"], "N.md"),
        ("../../N", "a/s.md", ["a/N.md", "b/N.md"], None),
        ("/home/me/N", "s.md", ["N.md", "me/N.md"], None),
        ("//host/N", "s.md", ["N.md"], None),
        ("\\\\host\\N", "s.md", ["N.md"], None),
        ("C:/N", "s.md", ["N.md"], None),
        ("file:///N", "s.md", ["N.md"], None),
        ("https://x.org/N", "s.md", ["N.md"], None),
        # the note itself, and nothing at all
        ("", "a/s.md", [], "a/s.md"),
        ("  ", "a/s.md", [], "a/s.md"),
        (".", "a/s.md", ["a/s.md"], None),
        ("/", "a/s.md", ["a/s.md"], None),
        ("a", "s.md", ["a/x.md"], None),
        # a folder is no file
        ("a/", "s.md", ["a.md"], None),
        ("./", "a/s.md", ["a.md"], None),
        ("..", "a/b/s.md", ["a.md"], None),
        ("b/..", "s.md", ["b.md"], None),
        # a note may link to itself
        ("s", "a/s.md", ["a/s.md", "s/s.md"], "a/s.md"),
        # as it is written, whatever that is
        ("a%20b", "s.md", ["a b.md"], None),
        ("a[b", "s.md", ["a[b.md"], "a[b.md"),
        ("a^b", "s.md", ["a^b.md", "a.md"], "a^b.md"),
        ("a|b", "s.md", ["a.md", "b.md"], None),
        ("a\nb", "s.md", ["a b.md", "a.md"], None),
        ("a\0b", "s.md", ["a.md"], None),
        ("sub/../N", "a/s.md", ["N.md"], "N.md"),
    ],
)
def test_a_link_means(target, source, paths, expected):
    assert meant(target, source, *paths) == expected
    assert meant(target, source, *reversed(paths)) == expected


def test_a_name_is_looked_up_by_one_key_with_and_without_its_suffix():
    # Small letters of ΟΔΟΣ end otherwise before `.md` than alone.
    assert target_name("ΟΔΟΣ") in link_names_of("ΟΔΟΣ.md")


def test_a_name_that_several_files_have_is_ambiguous():
    named = {"n.md": ["a/n.md", "b/n.md"], "only.md": ["only.md"]}
    assert resolve("n", "s.md", lambda name: named.get(name, ())).ambiguous
    assert not resolve("only", "s.md", lambda name: named.get(name, ())).ambiguous


parts = st.sampled_from(
    [
        "a",
        "B",
        "caf\u00e9",
        "cafe\u0301",
        "n.md",
        "N.MD",
        "x.png",
        "v1.2",
        "日记",
        "ΟΔΟΣ",
        "οδος",
        "..",
        ".",
        "",
    ]
)
paths = st.lists(parts.filter(lambda p: p not in ("", ".", "..")), min_size=1, max_size=3).map("/".join)
targets = st.lists(parts, max_size=4).map("/".join)


@given(targets, paths, st.lists(paths, max_size=8, unique=True))
def test_a_file_that_is_meant_has_the_name_of_the_link(target, source, present):
    path = meant(target, source, *present)
    if path is not None and target.strip():
        assert path in present
        assert name_key(path) in {target_name(target) + suffix for suffix in ("", *NOTE_SUFFIXES)}
        assert target_name(target) in link_names_of(path)


@given(st.text(alphabet=st.sampled_from("aA/.\\#^|[]%:\n\0 \u0301é🚀")), paths, st.lists(paths, max_size=8))
def test_any_target_means_a_file_or_none(target, source, present):
    path = meant(target, source, *present)
    assert path is None or path in {source, *present}


@given(targets, paths)
def test_a_link_asks_for_its_own_names_only(target, source):
    asked = []
    resolve(target, source, lambda name: asked.append(name) or [])
    assert len(asked) <= 1 + len(NOTE_SUFFIXES)
    assert set(asked) <= {target_name(target) + suffix for suffix in ("", *NOTE_SUFFIXES)}


@given(targets, paths, st.lists(paths, max_size=8, unique=True), paths)
def test_a_file_of_another_name_changes_nothing(target, source, present, other):
    if target_name(target) not in link_names_of(other):
        assert meant(target, source, *present) == meant(target, source, *present, other)


# What a broken link may have meant

NAMES = [("composting", "Composting.md"), ("compost", "a/Compost.md"), ("compost.png", "Picture.md")]


def test_a_broken_link_may_have_meant_what_is_spelled_like_it():
    assert suggest("Compostt", NAMES, 2) == ["a/Compost.md", "Composting.md"]


def test_the_note_that_has_the_link_is_not_what_it_meant():
    assert suggest("Compostt", NAMES, 2, own="a/Compost.md") == ["Composting.md"]


@pytest.mark.parametrize("target", ["compost.png", "img/Compost.GIF", "compost.pdf"])
def test_a_picture_that_is_missing_was_not_meant_to_be_a_note(target):
    assert suggest(target, NAMES, 2) == []
    assert suggest("compost.v2", NAMES, 2)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("a%20b.md", ("a b.md", "")),
        ("../x/a.md#A%20heading", ("../x/a.md", "A heading")),
        ("#part", ("", "part")),
        ("a%3Ab.md", ("a:b.md", "")),
        ("", None),
        ("#", None),
        ("%20", None),
        ("https://example.org/a.md", None),
        ("//example.org/a.md", None),
        ("JavaScript:alert(1)", None),
        ("data:text/html,x", None),
    ],
)
def test_an_address_names_a_file_of_the_vault_or_none(address, expected):
    assert inner_target(address) == expected
