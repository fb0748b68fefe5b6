"""A terminal obeys nothing that is printed, and no text is markup."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from queue_config.visible import visible
from service.cli.console import Terminal
from tests.queue_config.test_visible import is_obeyed

STYLES = re.compile(r"\x1b\[[0-9;]*m")
# Texts of which most characters do something, beside markup, emoji codes and ordinary ones.
odd = st.text(
    st.one_of(
        st.sampled_from(list(filter(is_obeyed, map(chr, range(0x2100))))),
        st.sampled_from("[]/red :boom:\\ab"),
        st.characters(),
    ),
    max_size=30,
)


def printed(*things, styled, **options):
    terminal = Terminal()
    terminal.file = io.StringIO()
    terminal._color_system = ColorSystem.TRUECOLOR if styled else None
    terminal.print(*things, **options)
    return terminal.file.getvalue()


def table_of(text):
    table = Table(text, title=text, caption=text)
    table.add_row(text)
    table.add_row(Text(text, "bold"))
    return table


@pytest.mark.parametrize("styled", [False, True])
@given(text=odd)
def test_nothing_printed_is_obeyed(styled, text):
    things = (text, Text(text, "red"), table_of(text), Panel(text, title=Text(text)))
    for thing in things:
        said = STYLES.sub("", printed(thing, styled=True)) if styled else printed(thing, styled=False)
        assert not [char for char in said if is_obeyed(char)]


@given(odd)
def test_a_line_is_printed_as_it_is_but_for_what_is_made_visible(text):
    terminal = Terminal()
    terminal.file = io.StringIO()
    terminal.say(text)
    shown = visible(text)
    if "\t" not in shown:
        assert terminal.file.getvalue() == shown + "\n"


@pytest.mark.parametrize(
    "text", ["[red]v[/]", "[/x]", "[link=file:///etc]a[/link]", ":boom:", "[bold", "\\["]
)
def test_no_text_is_markup(text):
    assert printed(text, styled=False) == text + "\n"
    assert text in printed(table_of(text), styled=False)


def test_a_table_that_no_terminal_shows_is_not_cut(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table(box=None)
    table.add_column("model")
    table.add_row("organisation/model-" + "x" * 200)
    assert "x" * 200 in printed(table, styled=False)
