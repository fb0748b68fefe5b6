"""Tables of plain text become blocks of their header and twenty rows, whatever program wrote them."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.documents.readers import delimited, row_blocks
from pipelines.documents.readers.delimited import read
from pipelines.errors import DocumentError
from pipelines.model import Locator


def blocks(document):
    return [(document.text[b.start : b.end], b.place) for b in document.blocks]


def texts(data, path="a.csv"):
    return [text for text, _ in blocks(read(path, data, {}))]


def rows(first, last):
    return Locator("rows", "", first, last)


def written(table, **dialect):
    out = io.StringIO()
    csv.writer(out, **dialect).writerows(table)
    return out.getvalue()


def test_a_table_becomes_its_header_and_twenty_rows_a_block():
    table = [["city", "people"], *([f"town {n}", str(n)] for n in range(2, 47))]
    document = read("towns.csv", written(table).encode(), {})
    found = blocks(document)
    assert [place for _, place in found] == [rows(2, 21), rows(22, 41), rows(42, 46)]
    assert found[0][0].splitlines()[:2] == ["city | people", "town 2 | 2"]
    assert (
        found[2][0] == "city | people\ntown 42 | 42\ntown 43 | 43\ntown 44 | 44\ntown 45 | 45\ntown 46 | 46"
    )
    assert (document.title, document.warnings, document.metadata) == ("", (), {})


def test_a_file_with_only_a_header_is_found_by_it():
    assert blocks(read("a.csv", b"city,people\n", {})) == [("city | people", rows(1, 1))]


def test_the_rows_of_excel_in_german_are_read_in_its_encoding_with_its_delimiter():
    data = 'Ort;Preis;Größe\r\nKöln;1,50 €;"groß; rund"\r\n'.encode("cp1252")
    document = read("Preise.csv", data, {})
    assert blocks(document) == [("Ort | Preis | Größe\nKöln | 1,50 € | groß; rund", rows(2, 2))]
    assert document.warnings == ("not UTF-8 at byte 12: read as Windows-1252",)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_encoding_and_delimiter_are_recognised(encoding, delimiter):
    table = [["naïve", "b", "c"], ["1,5", "2;5", "日本"], ["3", "4", "5"]]
    data = written(table, delimiter=delimiter).encode(encoding)
    assert texts(data) == ["naïve | b | c\n1,5 | 2;5 | 日本\n3 | 4 | 5"]


def test_a_big_endian_file_is_read():
    assert texts(b"\xfe\xff" + "a,b\n1,é".encode("utf-16-be")) == ["a | b\n1 | é"]


def test_tab_separated_values_keep_their_commas():
    assert texts(b"a, x\tb\n1, 2\t3\n", "A.TSV") == ["a, x | b\n1, 2 | 3"]


def test_a_list_with_one_column_is_not_cut_at_its_commas():
    assert texts(b"remark\nfirst, then that\nall good\nyes, no, maybe\n") == [
        "remark\nfirst, then that\nall good\nyes, no, maybe"
    ]


def test_lines_above_the_table_do_not_hide_its_delimiter():
    data = b'Account 1234, Ada\n\nday;text;sum\n1;rent, May;-700,00\n2;"food; drink";-9,50\n'
    assert texts(data) == [
        "Account 1234, Ada\nday | text | sum\n1 | rent, May | -700,00\n2 | food; drink | -9,50"
    ]


def test_spaces_after_the_delimiter_do_not_hide_quotation_marks():
    assert texts(b'a, b\n1, "x, y"\n2, "z"\n') == ["a | b\n1 | x, y\n2 | z"]


def test_the_line_in_which_excel_states_the_delimiter_is_no_row():
    assert blocks(read("a.csv", b"sep=|\r\na|b,c\r\n1|2\r\n", {})) == [("a | b,c\n1 | 2", rows(2, 2))]


def test_rows_are_counted_as_a_spreadsheet_shows_them():
    """Blank rows count, a cell with line breaks is one row, and empty cells keep their place."""
    data = b'\n,,\nname,note,n\n\nA,"two\nlines, or\r\nthree",1\n , ,\nB,,2\nC,last,,,\n'
    assert blocks(read("a.csv", data, {})) == [
        ("name | note | n\nA | two lines, or three | 1\nB |  | 2\nC | last", rows(5, 8))
    ]


def test_a_quotation_mark_that_is_never_closed_swallows_no_row():
    data = b'size,what\n"5 inch,disk\n' + b"1,row\n" * 50
    document = read("a.csv", data, {})
    assert blocks(document)[0][0].splitlines()[:3] == ["size | what", '"5 inch | disk', "1 | row"]
    assert blocks(document)[-1][1].last == 52
    assert document.warnings == ("row 2: quotation marks do not match and were read as text",)


def test_a_mark_that_a_later_row_seems_to_close_swallows_no_row():
    data = b'a,b\n1,"open\n2,x\n3,"right"\n4,y\n'
    document = read("a.csv", data, {})
    assert blocks(document) == [('a | b\n1 | "open\n2 | x\n3 | right\n4 | y', rows(2, 5))]


def test_a_mark_that_is_closed_a_thousand_rows_below_swallows_no_row():
    data = b'a,b\n1,"open\n' + b"row,1\n" * 1_000 + b'last",2\n'
    document = read("a.csv", data, {})
    assert blocks(document)[-1][1].last == 1_003
    assert document.warnings == ("row 2: quotation marks do not match and were read as text",)


def test_many_such_marks_cost_no_quadratic_time(monkeypatch):
    monkeypatch.setattr(delimited, "_MOST_UNCLOSED", 3)
    document = read("a.csv", b'a,b\n1,"x y\n' + b'2,"x"y\n' * 9, {})
    assert len(document.text.splitlines()) == 11
    assert document.warnings == (
        "rows 2, 3, 4 and all rows below: quotation marks do not match and were read as text",
    )


def test_a_cell_longer_than_the_limit_of_the_csv_module_is_read():
    text = texts(b'a,b\n1,"' + b"word " * 40_000 + b'"\n')[0]
    assert text.count("word") == 40_000


def test_reading_stops_at_the_limit_of_cells_and_says_so(monkeypatch):
    monkeypatch.setattr(row_blocks, "MOST_CELLS", 60)
    document = read("a.csv", b"a,b\n" + b"1,2\n" * 100, {})
    assert blocks(document)[-1][1] == rows(22, 30)
    assert document.warnings == ("only the first 60 cells were read, up to row 30",)


def test_reading_stops_at_the_limit_of_characters_and_says_so(monkeypatch):
    monkeypatch.setattr(delimited, "MOST_CHARACTERS", 1_000)
    document = read("a.csv", b"a,b\n" + b"1,2\n" * 1_000, {})
    assert document.warnings == ("only the first 1,000 of 4,004 characters were read",)
    assert blocks(document)[-1][1].last == 250


def test_a_long_header_is_repeated_in_part_so_that_it_does_not_multiply(monkeypatch):
    monkeypatch.setattr(row_blocks, "LONGEST_REPEATED_HEADER", 10)
    header = ",".join(f"column {n}" for n in range(9))
    lines = [header, *["1,2"] * 25]
    found = texts("\n".join(lines).encode())
    assert found[0].startswith("column 0 | column 1")
    assert found[1].splitlines()[:2] == ["column 0 |", "1 | 2"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b" , ,\n", "\ufeff".encode()])
def test_a_file_without_rows_says_so(data):
    document = read("a.csv", data, {})
    assert (document.text, document.blocks, document.warnings) == ("", (), ("the file has no rows",))


@pytest.mark.parametrize("data", [b"PK\x03\x04\x14\x00\x00", "a,b".encode("utf-16-le"), bytes(100)])
def test_what_is_no_text_is_refused(data):
    with pytest.raises(
        DocumentError, match=r"^'in/a\.csv' is not a text file \(it has NUL bytes\); rename it"
    ):
        read("in/a.csv", data, {})


@settings(max_examples=200)
@given(
    st.binary(max_size=200) | st.text('a",;\n\r\t|= ', max_size=60).map(str.encode),
    st.sampled_from(["a.csv", "a.tsv"]),
)
def test_any_bytes_give_blocks_that_cover_the_text_or_a_refusal(data, path):
    try:
        document = read(path, data, {})
    except DocumentError:
        assert b"\0" in data
        return
    assert "\n\n".join(text for text, _ in blocks(document)) == document.text
    assert all(1 <= place.first <= place.last for _, place in blocks(document))
