"""Workbooks become blocks of a sheet's header and twenty rows, with the values that Excel saved."""

from __future__ import annotations

import io
import zipfile
from datetime import date, datetime, time, timedelta

import openpyxl
import pytest
from openpyxl.chartsheet import Chartsheet

from pipelines.documents.readers import row_blocks, sheets
from pipelines.documents.readers.sheets import read
from pipelines.errors import DocumentError
from pipelines.model import Locator


def saved(book):
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def book_of(**tables):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, table in tables.items():
        sheet = book.create_sheet(name)
        for row in table:
            sheet.append(row)
    return book


def blocks(document):
    return [(document.text[b.start : b.end], b.label, b.headings, b.place) for b in document.blocks]


def with_part(data, name, change):
    """Return a package in which a part is changed by a function of its text."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for one in old.namelist():
            content = old.read(one)
            new.writestr(one, change(content.decode()) if one == name else content)
    return out.getvalue()


def test_each_sheet_becomes_blocks_of_its_header_and_twenty_rows():
    costs = [["item", "eur"], *([f"item {n}", n / 2] for n in range(2, 26))]
    book = book_of(Costs=costs, **{"To do": [["task"], ["call Ada"]]})
    book.properties.title, book.properties.creator = "Plan 2026", "Ada"
    book.properties.created = datetime(2026, 1, 5, 9, 30)  # noqa: DTZ001 - openpyxl takes no time zone
    document = read("plan.xlsx", saved(book), {})
    assert (document.title, document.metadata) == ("Plan 2026", {"author": "Ada", "date": "2026-01-05"})
    first, second, third = blocks(document)
    assert first[0].splitlines()[:4] == ["[Sheet: Costs]", "item | eur", "item 2 | 1", "item 3 | 1.5"]
    assert first[1:] == ("Costs", ("Costs",), Locator("rows", "Costs", 2, 21))
    assert second == (
        "[Sheet: Costs]\nitem | eur\nitem 22 | 11\nitem 23 | 11.5\nitem 24 | 12\nitem 25 | 12.5",
        "Costs",
        ("Costs",),
        Locator("rows", "Costs", 22, 25),
    )
    assert third == (
        "[Sheet: To do]\ntask\ncall Ada",
        "To do",
        ("To do",),
        Locator("rows", "To do", 2, 2),
    )


def test_values_are_shown_as_a_reader_would_write_them():
    row = [
        7,
        7.0,
        0.1 + 0.2,
        -2.50,
        True,
        date(2026, 3, 1),
        datetime(2026, 3, 1, 14, 30),  # noqa: DTZ001 - Excel knows no time zones
        time(8, 5),
        "#N/A",
        None,
        "x",
    ]
    book = book_of(S=[["h"], row, [timedelta(hours=26, minutes=3), 1e20, 123456789012.0, "two\nlines"]])
    text = read("a.xlsx", saved(book), {}).text
    assert text.splitlines()[2:] == [
        "7 | 7 | 0.3 | -2.5 | TRUE | 2026-03-01 | 2026-03-01T14:30:00 | 08:05:00 |  |  | x",
        "26:03:00 | 1e+20 | 123456789012 | two lines",
    ]


def test_a_formula_gives_the_value_that_was_saved_and_is_not_evaluated():
    data = saved(book_of(S=[["sum"], ["=1+1"], ["=2+2"]]))
    data = with_part(
        data, "xl/worksheets/sheet1.xml", lambda xml: xml.replace("<f>1+1</f><v></v>", "<f>1+1</f><v>41</v>")
    )
    assert read("a.xlsx", data, {}).text == "[Sheet: S]\nsum\n41"


def test_empty_rows_and_columns_before_a_table_do_not_change_its_row_numbers():
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Far"
    for row, cells in ((5, ("name", None, "n")), (6, (None, None, 1)), (9, ("b", None, 2))):
        for column, cell in enumerate(cells, 3):
            sheet.cell(row, column, cell)
    assert blocks(read("a.xlsx", saved(book), {})) == [
        ("[Sheet: Far]\nname |  | n\n|  | 1\nb |  | 2", "Far", ("Far",), Locator("rows", "Far", 6, 9))
    ]


def test_hidden_sheets_are_read_and_charts_and_empty_sheets_are_not():
    book = book_of(Empty=[], Secret=[["a"], ["b"]])
    book["Secret"].sheet_state = "veryHidden"
    book._sheets.insert(1, Chartsheet(parent=book, title="Chart"))
    assert [block[1] for block in blocks(read("a.xlsm", saved(book), {}))] == ["Secret"]


def test_a_workbook_of_empty_sheets_has_no_text():
    document = read("a.xlsx", saved(book_of(S=[])), {})
    assert (document.text, document.blocks, document.warnings) == ("", (), ())


def test_reading_stops_at_the_limit_of_cells_over_all_sheets(monkeypatch):
    monkeypatch.setattr(row_blocks, "MOST_CELLS", 50)
    ten = [["a", "b"]] * 20
    document = read("a.xlsx", saved(book_of(One=ten, Two=ten, Three=ten, Four=ten)), {})
    assert [block[3] for block in blocks(document)] == [
        Locator("rows", "One", 2, 20),
        Locator("rows", "Two", 2, 5),
    ]
    assert document.warnings == (
        "only the first 50 cells were read, up to row 5 of sheet 'Two'",
        "sheets not read: Three, Four",
    )


@pytest.mark.parametrize("size", [50, 1_000_000])
def test_rows_after_the_limit_of_cells_are_cut_before_they_cost_anything(monkeypatch, size):
    """Of the rows below, the first has a character that no reader accepts."""
    monkeypatch.setattr("pipelines.documents.readers.ooxml._PIECE", size)
    for module in (sheets, sheets, row_blocks):
        monkeypatch.setattr(module, "MOST_CELLS", 50)
    data = saved(book_of(Big=[["a", "b"]] * 40, Small=[["c"]]))
    data = with_part(
        data, "xl/worksheets/sheet1.xml", lambda xml: xml.replace('<row r="28">', '<row r="28">&')
    )
    document = read("a.xlsx", data, {})
    assert [block[3] for block in blocks(document)] == [
        Locator("rows", "Big", 2, 21),
        Locator("rows", "Big", 22, 25),
    ]
    assert document.warnings == (
        "only the first 50 cells were read, up to row 25 of sheet 'Big'",
        "sheets not read: Small",
    )


def test_a_cell_with_many_addresses_costs_no_quadratic_time():
    """Searching in vain from each of them would take ten minutes."""
    data = saved(book_of(S=[["a"], ["b"]]))
    cell = "<c " + 'r="A1" ' * 200_000 + "/></sheetData>"
    data = with_part(data, "xl/worksheets/sheet1.xml", lambda xml: xml.replace("</sheetData>", cell))
    assert read("a.xlsx", data, {}).text == "[Sheet: S]\na\nb"


def test_a_sheet_whose_cells_are_mostly_without_a_value_is_not_cut_silently(monkeypatch):
    for module in (sheets, sheets, row_blocks):
        monkeypatch.setattr(module, "MOST_CELLS", 10)
    document = read("a.xlsx", saved(book_of(S=[["a"], *[["=1+1"]] * 20])), {})
    assert document.text == "[Sheet: S]\na"
    assert document.warnings == ("only the first 10 cells of sheet 'S' were read",)


def test_one_text_in_many_cells_stops_at_the_limit_of_characters(monkeypatch):
    """A small file can repeat a shared string without end."""
    monkeypatch.setattr(row_blocks, "MOST_CHARACTERS", 2_000)
    document = read("a.xlsx", saved(book_of(S=[["a"], *[["x" * 100]] * 500])), {})
    assert len(document.text) < 2_500
    assert document.warnings == ("only about 2,000 characters were read, up to row 21 of sheet 'S'",)


def test_a_sheet_with_cells_in_its_far_corners_is_left_out_and_named():
    """calamine would ask for memory for 17 thousand million cells, and end the process."""
    book = book_of(Far=[["a"]], Near=[["b"], ["c"]])
    book["Far"].cell(1_048_576, 16_384, "z")
    document = read("a.xlsx", saved(book), {})
    assert document.text == "[Sheet: Near]\nb\nc"
    assert document.warnings == (
        (
            "sheet 'Far' was not read: its outermost cells span 17,179,869,184 places, more than 4,000,000; delete"
            " the cells that are far from the rest"
        ),
    )


@pytest.mark.parametrize("empty", ['<c r="XFD1048576" s="1"/>', '<c r="XFD1048576" s="1"></c>'])
def test_formatted_cells_without_content_do_not_count_as_far_corners(empty):
    data = saved(book_of(S=[["a"], ["b"]]))
    row = f'<row r="1048576">{empty}</row></sheetData>'
    data = with_part(data, "xl/worksheets/sheet1.xml", lambda xml: xml.replace("</sheetData>", row))
    document = read("a.xlsx", data, {})
    assert (document.text, document.warnings) == ("[Sheet: S]\na\nb", ())


@pytest.mark.parametrize("size", [7, 64, 1_000_000])
def test_the_outermost_cells_are_found_wherever_the_file_is_read_in_pieces(monkeypatch, size):
    monkeypatch.setattr("pipelines.documents.readers.ooxml._PIECE", size)
    monkeypatch.setattr(sheets, "MOST_PLACES", 11)
    data = saved(book_of(S=[["a", None, "b"], [], [], [None, "c"]]))
    assert "span 12 places" in read("a.xlsx", data, {}).warnings[0]


def test_a_sheet_of_macros_is_named_because_the_workbook_cannot_be_read():
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"
    data = saved(book_of(S=[["a"]]))
    data = with_part(
        data,
        "xl/_rels/workbook.xml.rels",
        lambda xml: xml.replace(kinds, "http://schemas.microsoft.com/office/2006/relationships/xlMacrosheet"),
    )
    sentence = (
        r"^'a\.xlsm' has the sheet 'S' of a kind that calamine cannot read \(xlMacrosheet, such as macros"
    )
    with pytest.raises(DocumentError, match=sentence):
        read("a.xlsm", data, {})


@pytest.mark.parametrize(
    ("part", "old", "new", "reason"),
    [
        ("xl/workbook.xml", 'r:id="rId1"', 'r:id="rId99"', "lists the sheet 'S', which is missing"),
        ("xl/worksheets/sheet1.xml", "</worksheet>", "</worksheet", "not closed"),
        ("xl/worksheets/sheet1.xml", 'r="A2"', 'r="A0"', "is damaged"),
        (
            "xl/worksheets/sheet1.xml",
            't="inlineStr"><is><t>a</t></is>',
            't="s"><v>99</v>',
            "not found in shared",
        ),
        ("xl/worksheets/sheet1.xml", "<t>a</t>", "<t>&bomb;</t>", "unrecognized entity"),
        ("xl/styles.xml", "</styleSheet>", "", "is damaged"),
    ],
)
def test_a_damaged_workbook_is_refused(part, old, new, reason):
    data = saved(book_of(S=[["a"], ["b"]]))
    changed = with_part(data, part, lambda xml: xml.replace(old, new))
    with pytest.raises(DocumentError, match=reason) as raised:
        read("a.xlsx", changed, {})
    assert str(raised.value).startswith("'a.xlsx' is damaged")
