import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.documents.decoding import decode_text


@pytest.mark.parametrize(
    ("data", "text", "warnings"),
    [
        (b"", "", ()),
        ("Größe".encode(), "Größe", ()),
        ("Größe".encode("utf-8-sig"), "Größe", ()),
        ("Größe".encode("utf-16"), "Größe", ()),
        (b"\xfe\xff" + "Größe".encode("utf-16-be"), "Größe", ()),
        (b"\xff\xfeA\x00B", "A\ufffd", ("not UTF-16 at byte 4: unreadable bytes were replaced",)),
        ("Größe – “so”".encode("cp1252"), "Größe – “so”", ("not UTF-8 at byte 2: read as Windows-1252",)),
        (b"caf\xe9 \x81", "café \ufffd", ("not UTF-8 at byte 3: read as Windows-1252",)),
        (b"one\x00two", "one\ufffdtwo", ("NUL bytes were replaced",)),
        (b"PK\x03\x04\x00\xff", "", ("not a text: the file is not UTF-8 and has NUL bytes",)),
    ],
)
def test_a_text_is_decoded_by_its_mark_or_as_utf_8_or_as_windows_1252(data, text, warnings):
    assert decode_text(data) == (text, warnings)


@given(st.binary())
def test_any_bytes_give_a_text_that_can_be_stored(data):
    text, _ = decode_text(data)
    text.encode()
    assert "\0" not in text
