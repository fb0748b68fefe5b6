"""The scopes of `_scopes.yaml`: filters under a name, and an error with its line for anything else."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import FilterError, ScopesFileError
from pipelines.filters import Filters, parse_filters
from pipelines.search.scopes import parse, scopes_of

GOOD = """\
project-x:
  folder: [Projects/X, Archive/X]
  tag: "#Active"
  since: 2026-01-31
years: {folder: 2026, property.done: true, community: 3}
of one: {domain: [garden, books]}
of another: {domain: books}
of a third: {domain: kitchen}
"""


@pytest.fixture
def find(vault):
    (vault / "_scopes.yaml").write_text(GOOD)
    return scopes_of(vault)


def test_a_scope_is_what_its_filters_are(find):
    assert find("project-x") == Filters(
        folders=("projects/x", "archive/x"), tags=("active",), since="2026-01-31"
    )
    assert find("years") == Filters(folders=("2026",), properties=(("done", "true"),), communities=(3,))


def test_a_question_keeps_its_own_filters_beside_those_of_its_scopes(find):
    found = parse_filters(
        [("tag", "x"), ("scope", "years"), ("scope", "project-x"), ("scope", "years")], find
    )
    assert found.tags == ("x",)
    assert found.scopes == (find("years"), find("project-x"))


def test_the_domains_are_those_in_all_of_them(find):
    def domains(*pairs):
        return parse_filters(pairs, find).domains

    assert domains(("scope", "of one")) == ("garden", "books")
    assert domains(("scope", "of one"), ("scope", "of another")) == ("books",)
    assert domains(("scope", "of one"), ("domain", "garden"), ("domain", "kitchen")) == ("garden",)
    assert domains(("scope", "years"), ("domain", "kitchen")) == ("kitchen",)
    for pairs in (
        [("scope", "of one"), ("domain", "kitchen")],
        [("scope", "of a third"), ("scope", "of one")],
    ):
        with pytest.raises(FilterError, match="no domain is in all of what is asked for"):
            domains(*pairs)


def test_a_change_of_the_file_counts_at_once(find, vault):
    find("years")
    (vault / "_scopes.yaml").write_text("years: {folder: Other}")
    assert find("years") == Filters(folders=("other",))


def test_a_name_that_it_does_not_have_is_answered_with_those_that_it_has(find, vault):
    with pytest.raises(FilterError, match=r"no scope 'x'; _scopes.yaml has project-x, years, of one"):
        find("x")
    (vault / "_scopes.yaml").unlink()
    with pytest.raises(FilterError, match=r"the vault has no _scopes.yaml"):
        find("x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "_scopes.yaml:1: expected"),
        ("[a]", "_scopes.yaml:1: expected"),
        ("a: [", "_scopes.yaml:1: not valid YAML"),
        ("a:\n  tag: x\n  foldr: y", "_scopes.yaml:3: a.foldr: unknown key; did you mean `folder`?"),
        ("a:\n  colour: y", "_scopes.yaml:2: a.colour: unknown key; known are domain, folder"),
        ("a:\n  scope: b", "_scopes.yaml:2: a.scope: unknown key"),
        ("a: {section: x}", "_scopes.yaml:1: a.section: unknown key"),
        ("a: {min_similarity: 0.3}", "_scopes.yaml:1: a.min_similarity: unknown key"),
        ("a: {1: x}", "_scopes.yaml:1: a.1: unknown key"),
        ("a:\n  tag: [x,\n    'y z']", "_scopes.yaml:2: a.tag: tag cannot be 'y z'"),
        ("a:\n  folder: /", "_scopes.yaml:2: a.folder: folder is the whole vault"),
        ("a:\n  folder: {b: c}", "_scopes.yaml:2: a.folder: expected a value or a list"),
        ("a:\n  folder:", "_scopes.yaml:2: a.folder: expected a value or a list"),
        ("a:\n  since: [2026-01-01, 2026-01-02]", "_scopes.yaml:2: a.since: since was given 2 times"),
        ("b: {tag: x}\na: {since: 2026-02-01, until: 2026-01-01}", "_scopes.yaml:2: a: since (2026-02-01)"),
        ("a: 3", "_scopes.yaml:1: a: expected filters"),
        ("a: {}", "_scopes.yaml:1: a: expected filters"),
        ("1: {tag: x}", "_scopes.yaml:1: a scope's name is one line"),
        ('"a\\tb": {tag: x}', "_scopes.yaml:1: a scope's name is one line"),
        (f"{'x' * 101}: {{tag: x}}", "_scopes.yaml:1: a scope's name is one line"),
        ("a: {tag: x}\na: {tag: y}", "_scopes.yaml:2: 'a' is written twice"),
        ("a: &b {tag: x}\nc: *b", "_scopes.yaml:2: YAML aliases"),
        ("a: " + "[" * 30, "nested more than"),
        ("\n".join(f"s{n}: {{tag: x}}" for n in range(101)), "101 entries are more than 100"),
        ("a: {path: [" + ", ".join(f"{n}.md" for n in range(1_001)) + "]}", "1001 paths"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, said):
    with pytest.raises(ScopesFileError) as raised:
        parse(text)
    assert said in str(raised.value)


@given(st.text() | st.text("ab:{}[],*&!-\n \"'#?|>0", max_size=40))
def test_any_text_is_scopes_or_an_error(text):
    with suppress(ScopesFileError):
        parse(text)


@pytest.mark.parametrize(
    "make", [lambda file: file.mkdir(), lambda file: file.symlink_to("/etc/hostname"), os.mkfifo,
             lambda file: file.write_bytes(b"\xff"), lambda file: file.write_text("#" * 100_001)]
)  # fmt: skip
def test_what_is_no_readable_file_of_the_vault_is_refused(vault, make):
    make(vault / "_scopes.yaml")
    with pytest.raises(ScopesFileError, match="cannot be read"):
        scopes_of(vault)("x")


def test_scopes_belong_to_questions_alone():
    with pytest.raises(FilterError, match="only a question names scopes"):
        parse_filters([("scope", "x")])
