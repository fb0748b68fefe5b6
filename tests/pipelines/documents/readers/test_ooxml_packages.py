"""Office files that are damaged, or made to do harm, are refused with a sentence that says what to do."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from functools import cache

import docx
import openpyxl
import pptx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.documents.readers import ooxml, sheets, slides, word
from pipelines.errors import DocumentError

READERS = {"a.xlsx": sheets, "a.pptx": slides, "a.docx": word}
MAIN = {"a.xlsx": "xl/workbook.xml", "a.pptx": "ppt/presentation.xml", "a.docx": "word/document.xml"}
TEXT = {"a.xlsx": "[Sheet: S]\nwords\nmore", "a.pptx": "words\nmore", "a.docx": "words\nmore"}
COMPOUND_FILE = bytes.fromhex(
    # The header of what Office writes around an encrypted document: 3.62, little endian, sectors of 512 and 64 bytes.
    "d0cf11e0a1b11ae1 00000000000000000000000000000000 3e00 0300 feff 0900 0600 000000000000 00000000 01000000"
).ljust(1_536, b"\xff")

each_format = pytest.mark.parametrize("path", READERS)


@cache
def written(path):
    """Return a small file as the format's library writes it."""
    out = io.BytesIO()
    if path == "a.xlsx":
        book = openpyxl.Workbook()
        book.active.title = "S"
        book.active.append(["words"])
        book.active.append(["more"])
        book.save(out)
    elif path == "a.pptx":
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = "words", "more"
        deck.save(out)
    else:
        document = docx.Document()
        document.add_paragraph("words")
        document.add_paragraph("more")
        document.save(out)
    return out.getvalue()


def packed(parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in parts.items():
            if name:
                archive.writestr(name, content)
            else:
                archive.open(zipfile.ZipInfo(name), "w").close()
    return out.getvalue()


def parts_of(path):
    with zipfile.ZipFile(io.BytesIO(written(path))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read(path, data):
    return READERS[path].read(path, data, {})


def refusal(path, data):
    """Return the sentence with which a file is refused."""
    with pytest.raises(DocumentError) as raised:
        read(path, data)
    sentence = str(raised.value)
    assert sentence.startswith(f"{path!r} ")
    assert "\n" not in sentence
    return sentence.removeprefix(f"{path!r} ")


@each_format
def test_a_file_as_it_was_written_is_read(path):
    document = read(path, written(path))
    assert (document.text, document.warnings) == (TEXT[path], ())


@each_format
def test_an_empty_file_is_refused(path):
    assert refusal(path, b"") == "is empty (0 bytes); copy it again from where it came"


@each_format
@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_truncated_file_is_refused(path, share):
    data = written(path)
    assert refusal(path, data[: int(len(data) * share)]).startswith("is damaged or incomplete (")


@each_format
@pytest.mark.parametrize(
    "data", [b"%PDF-1.7\n%%EOF", b"plain words", bytes(5_000), b"\x1f\x8b\x08" + bytes(40)]
)
def test_a_file_of_another_kind_is_refused(path, data):
    assert refusal(path, data) == f"is not a {path[1:]} file; rename it to the extension of its format"


@pytest.mark.parametrize(
    ("path", "other", "kind"),
    [
        ("a.xlsx", "a.docx", "an Excel workbook (.xlsx or .xlsm)"),
        ("a.pptx", "a.xlsx", "a PowerPoint presentation (.pptx)"),
        ("a.docx", "a.pptx", "a Word document (.docx)"),
    ],
)
def test_a_file_of_another_office_format_is_refused(path, other, kind):
    cure = "; rename it so that its extension names the format that it has"
    assert refusal(path, written(other)) == f"is not {kind}{cure}"
    assert refusal(path, packed({"readme.txt": "no Office file"})) == f"is not {kind}{cure}"


@each_format
def test_an_encrypted_file_and_one_of_old_office_are_refused(path):
    assert refusal(path, COMPOUND_FILE) == (
        f"is encrypted or in the format of Office 97 to 2003; save a copy as {path[1:]} without a password"
    )


@each_format
def test_an_archive_with_encrypted_members_is_refused(path):
    data = bytearray(written(path))
    flags = data.index(b"PK\x01\x02") + 8
    data[flags] |= 1
    assert refusal(path, bytes(data)) == "is encrypted; save a copy without a password"


@cache
def bomb():
    """Return a member of 1 MB that unpacks to 201 MB."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x", "w") as member,
    ):
        for _ in range(201):
            member.write(bytes(1_000_000))
    return out.getvalue()


@each_format
def test_a_zip_bomb_is_refused_before_it_is_unpacked(path):
    assert len(bomb()) < 2_000_000
    sentence = "unpacks to 201 MB, and at most 200 MB are read; split it, or leave it out"
    assert refusal(path, bomb()) == sentence


@each_format
def test_a_member_larger_than_the_archive_states_is_refused(path):
    """zipfile would stop at that size, and other libraries would read on."""
    parts = parts_of(path)
    whole = parts[MAIN[path]]
    data = bytearray(packed({**parts, MAIN[path]: whole + b" " * 5_000_000}))
    true_size = struct.pack("<L", len(whole) + 5_000_000)
    true_sum = struct.pack("<L", zlib.crc32(whole + b" " * 5_000_000))
    for true, stated in ((true_size, len(whole)), (true_sum, zlib.crc32(whole))):
        assert data.count(true) == 2
        data = data.replace(true, struct.pack("<L", stated))
    assert refusal(path, bytes(data)).startswith(
        f"is damaged: its part {MAIN[path]!r} cannot be unpacked (Bad CRC"
    )


@each_format
def test_an_archive_with_ten_thousand_members_is_refused(path):
    parts = {f"x{number}": b"" for number in range(ooxml.MOST_MEMBERS + 1)}
    assert refusal(path, packed(parts)) == "has more than 10,000 members, as no Office file has; leave it out"


@each_format
def test_a_part_that_is_too_large_for_a_tree_is_refused(path, monkeypatch):
    monkeypatch.setattr(ooxml, "LARGEST_TREE", 100)
    assert refusal(path, written(path)) == "has more than 100 bytes in its part '_rels/.rels'; split it"


@each_format
def test_deep_nesting_is_refused(path):
    deep = parts_of(path)[MAIN[path]].replace(b"</", b"<x>" * 100_000 + b"</", 1)
    assert refusal(path, packed({**parts_of(path), MAIN[path]: deep})).startswith(
        f"is damaged: its part {MAIN[path]!r} is not readable XML (Excessive depth"
    )


LAUGHS = b"".join(
    b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10 if n else b"ha" * 1_000) for n in range(10)
)


@each_format
@pytest.mark.parametrize("where", ["main part", "side part"])
@pytest.mark.parametrize("reference", [b"&l9;", b""])
def test_a_document_type_is_refused_and_its_entities_are_not_expanded(path, where, reference):
    parts = parts_of(path)
    part = MAIN[path] if where == "main part" else "docProps/core.xml"
    body = parts[part].rpartition(b"?>")[2]
    start = body.index(b">", body.index(b"<")) + 1
    typed = b"<!DOCTYPE x [" + LAUGHS + b"]>" + body[:start] + reference + body[start:]
    sentence = refusal(path, packed({**parts, part: typed}))
    assert sentence.startswith(f"is damaged: its part {part!r} ")
    assert "defines a document type" in sentence or "entity" in sentence.lower()


@each_format
def test_external_entities_are_not_read(path, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    parts = parts_of(path)
    typed = f'<!DOCTYPE x [<!ENTITY s SYSTEM "file://{secret}">]>'.encode()
    body = parts[MAIN[path]].partition(b"?>\n")[2] or parts[MAIN[path]]
    assert "SECRET" not in refusal(path, packed({**parts, MAIN[path]: typed + body}))


@each_format
def test_members_with_names_outside_of_the_archive_change_nothing(path):
    names = ("/etc/passwd", "../../a", "C:\\a", "a/../../b", "", "\u202e", "x" * 5_000)
    parts = {**parts_of(path), **dict.fromkeys(names, b"outside")}
    assert read(path, packed(parts)) == read(path, written(path))


@each_format
def test_names_of_parts_may_be_written_as_windows_writes_them(path):
    """Some programs write backslashes, and case does not count. calamine reads such files, too."""
    parts = {name.replace("/", "\\"): content for name, content in parts_of(path).items()}
    assert read(path, packed(parts)).text == TEXT[path]
    relations = parts_of(path)["_rels/.rels"].decode().replace(MAIN[path], "/" + MAIN[path].upper())
    if path != "a.xlsx":
        assert read(path, packed({**parts_of(path), "_rels/.rels": relations})).text == TEXT[path]


@each_format
def test_a_relation_that_leads_out_of_the_archive_finds_nothing(path):
    parts = parts_of(path)
    relations = parts["_rels/.rels"].decode().replace(MAIN[path], "../../../../etc/passwd")
    assert refusal(path, packed({**parts, "_rels/.rels": relations})).startswith(
        "is damaged: its part 'etc/passwd' is missing"
    )


@each_format
def test_no_missing_part_raises_anything_but_a_refusal(path):
    parts = parts_of(path)
    for missing in parts:
        try:
            read(path, packed({name: content for name, content in parts.items() if name != missing}))
        except DocumentError as error:
            assert str(error).startswith(f"{path!r} ")  # noqa: PT017 - most parts may be missing
    del parts[MAIN[path]]
    assert refusal(path, packed(parts)) == (
        f"is damaged: its part {MAIN[path]!r} is missing; open it in the program that wrote it and save it again"
    )


@each_format
@pytest.mark.parametrize(
    "content", [b"", b"junk", b"<a/>", b"<a", b'<?xml version="1.0" encoding="x-none"?><a/>']
)
def test_no_damaged_part_raises_anything_but_a_refusal(path, content):
    parts = parts_of(path)
    for damaged in parts:
        try:
            read(path, packed({**parts, damaged: content}))
        except DocumentError as error:
            assert str(error).startswith(f"{path!r} ")  # noqa: PT017 - some parts are not read


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(READERS)),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=4),
    st.floats(0.9, 1),
    st.booleans(),
)
def test_no_damaged_file_raises_anything_but_a_refusal(path, flips, kept, inside):
    """Bytes are changed in the file, or in its main part as if a program had written it so."""
    data = bytearray(parts_of(path)[MAIN[path]] if inside else written(path))
    for place, change in flips:
        data[int(place * len(data))] ^= change
    del data[int(kept * len(data)) :]
    try:
        read(path, packed({**parts_of(path), MAIN[path]: bytes(data)}) if inside else bytes(data))
    except DocumentError as error:
        assert str(error).startswith(f"{path!r} ")  # noqa: PT017 - a change may do no harm
