from importlib import import_module

import pytest

from pipelines.formats import FORMATS, NAMES, OF_A_NEW_VAULT, Format, format_of


def test_every_named_format_has_one_row():
    assert tuple(form.name for form in FORMATS) == NAMES


def test_no_two_formats_share_a_suffix():
    suffixes = [suffix for form in FORMATS for suffix in form.suffixes]
    assert len(suffixes) == len(set(suffixes))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Report.PDF", "pdf"),
        ("a/b.c/plan.xlsx", "xlsx"),
        ("notes.md", "md"),
        ("list.tsv", "csv"),
        ("x.tar.gz", None),
        ("pdf", None),
        ("folder.pdf/readme", None),
        (".md", "md"),
        ("a/.md", "md"),
    ],
)
def test_a_format_is_recognised_by_the_end_of_the_name(path, name):
    form = format_of(path)
    assert (form.name if form else None) == name


def test_a_new_vault_needs_nothing_that_is_installed_apart():
    assert [form.lacks for form in FORMATS if form.name in OF_A_NEW_VAULT] == [None] * len(OF_A_NEW_VAULT)


def test_a_format_without_its_reader_names_the_extra_that_brings_it():
    form = Format("pdf", (".pdf",), "pdf", ("no_such_package",), "documents")
    assert form.lacks == "documents"


@pytest.mark.parametrize("form", [form for form in FORMATS if form.reader], ids=lambda form: form.name)
def test_every_row_names_a_reader_that_exists(form):
    assert callable(import_module(f"pipelines.documents.readers.{form.reader}").read)
