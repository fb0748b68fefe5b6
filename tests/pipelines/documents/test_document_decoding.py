import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.documents.document import decode_text


@pytest.mark.parametrize(
    ("data", "text", "warnings"),
    [
        (b"", "", ()),
        ("Größe".encode(), "Größe", ()),
        ("Größe".encode("utf-8-sig"), "Größe", ()),
        (codecs.BOM_UTF16_LE + "Größe".encode("utf-16-le"), "Größe", ("not UTF-8: read as UTF-16",)),
        ("Größe – “so”".encode("cp1252"), "Größe – “so”", ("not UTF-8 at byte 2: read as Windows-1252",)),
        (b"one\x00two", "one\ufffdtwo", ("NUL bytes were replaced",)),
        (b"PK\x03\x04\x00\xff", "", ("not a text: the file is not UTF-8 and has NUL bytes",)),
    ],
)
def test_a_file_is_decoded_unless_it_is_binary(data, text, warnings):
    assert decode_text(data) == (text, warnings)


@given(st.binary())
def test_any_bytes_give_a_text_that_can_be_stored(data):
    text, _ = decode_text(data)
    text.encode()
    assert "\0" not in text
