"""Text files are one block, and their lines are the file's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.documents.read import note_of, read
from pipelines.model import Block
from pipelines.notes.chunk import chunk_note, chunk_settings

SETTINGS = chunk_settings(256, None, None)


def test_a_text_is_one_block_from_its_first_to_its_last_character_that_is_not_blank():
    document = read(b"\n\n  Monday: rain.\r\n\r\nTuesday: sun.\n\n")
    assert document.text == "\n\n  Monday: rain.\r\n\r\nTuesday: sun.\n\n"
    assert document.blocks == (Block(4, 34),)
    assert (document.title, document.links, document.warnings) == ("", (), ())


def test_lines_are_those_of_the_file_and_the_title_is_its_name():
    note = note_of("logs/Weather log.txt", read(b"\n\nMonday: rain.\nTuesday: sun.\n"))
    assert note.title == "Weather log"
    (chunk,) = chunk_note(note, SETTINGS)
    assert (chunk.text, chunk.first_line, chunk.last_line) == ("Monday: rain.\nTuesday: sun.", 3, 4)
    assert (chunk.section, chunk.heading_path, chunk.place) == ("Weather log", (), None)


def test_a_file_in_an_old_encoding_is_read_and_says_so():
    document = read("Sehr geehrte Frau Müller,\n".encode("cp1252"))
    assert document.text == "Sehr geehrte Frau Müller,\n"
    assert document.warnings == ("not UTF-8 at byte 19: read as Windows-1252",)
    assert read("Grüße".encode("utf-16")).text == "Grüße"


def test_a_blank_file_and_a_binary_file_have_no_blocks():
    assert read(b"").blocks == ()
    assert read(b" \n\t\n").blocks == ()
    archive = read(b"PK\x03\x04\x14\x00\x06\x00\xff\xd8")
    assert (archive.text, archive.blocks) == ("", ())
    assert archive.warnings == ("not a text: the file is not UTF-8 and has NUL bytes",)


@given(st.binary())
def test_no_bytes_make_it_raise(data):
    document = read(data)
    for block in document.blocks:
        assert document.text[block.start : block.end] == document.text.strip()
