"""A file in an old encoding is read as it was written, and its warnings name the encoding."""

from __future__ import annotations

import codecs
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.indexing.parse import is_heavy
from pipelines.notes.encodings import SAMPLE, decode, encoding_of, name_of
from pipelines.notes.markdown import read_note

TEXTS = {
    "cp1252": [
        "# Café\n\nlatinbody déjà vu",
        "café x",
        "It’s fine",
        "Temperature 20°C today.",
        "Größe – “so”",
        "---\ntitle: Übersicht\ntags: [größe]\n---\n\nDie Größe der Äpfel hängt von der Düngung ab.\n",
        "El niño comió jamón y piña en la montaña. ¿Qué pasó después?",
        "Não há situação que não se resolva com atenção e coração.",
        "Sjön är vacker på våren när blåsippor står i blom.",
    ],
    "cp1250": ["Zażółć gęślą jaźń. Łódź jest piękna o każdej porze roku, a żurek smakuje najlepiej."],
    "cp1251": ["Сегодня хорошая погода, и мы пошли гулять в лес. Потом обедали.", "Привет, мир"],
    "koi8_r": ["Сегодня хорошая погода, и мы пошли гулять в лес. Потом обедали."],
    "cp866": ["Сегодня хорошая погода, и мы пошли гулять в лес. Потом обедали."],
    "cp1253": ["Σήμερα ο καιρός είναι καλός και πήγαμε μια βόλτα στο δάσος."],
    "cp932": ["今日は天気がいいので、森へ散歩に行きました。", "---\ntitle: 会議メモ\n---\nThe meeting は 10時 に starts.\n"],
    "euc_jp": ["今日は天気がいいので、森へ散歩に行きました。とても楽しかったです。"],
    "gb18030": ["今天天气很好，我们去森林里散步了。中午吃了面条。"],
    "big5": ["今天天氣很好，我們去森林裡散步了。中午吃了麵條。"],
    "cp949": ["오늘은 날씨가 좋아서 숲으로 산책을 갔습니다. 정말 즐거웠습니다."],
    "mac_roman": ["L’été dernier, nous avons mangé des crêpes à la crème près de la forêt."],
}  # fmt: skip
CASES = [(codec, text) for codec, texts in TEXTS.items() for text in texts]


@pytest.mark.parametrize(("codec", "text"), CASES, ids=range(len(CASES)))
def test_a_text_in_an_old_encoding_is_read_as_it_was_written(codec, text):
    found, (warning,) = decode(text.encode(codec))
    assert found == text
    assert re.fullmatch(rf"not UTF-8 at byte \d+: read as {name_of(codec)}", warning)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ("", ())),
        ("Größe".encode(), ("Größe", ())),
        (b"\xef\xbb\xbf# T\r\n", ("# T\r\n", ())),
        (codecs.BOM_UTF16_LE + "Größe".encode("utf-16-le"), ("Größe", ("not UTF-8: read as UTF-16",))),
        (codecs.BOM_UTF16_BE + "Größe 日".encode("utf-16-be"), ("Größe 日", ("not UTF-8: read as UTF-16",))),
        (
            b"\xff\xfeA\0B",
            (
                "A\ufffd",
                ("not UTF-8: read as UTF-16", "not UTF-16 at byte 4: unreadable bytes were replaced"),
            ),
        ),
        (b"a\0b", ("a\ufffdb", ("NUL bytes were replaced",))),
    ],
)
def test_a_byte_order_mark_decides_and_utf_8_needs_none(data, expected):
    assert decode(data) == expected


@pytest.mark.parametrize("damage", [b"\xff", b"\xc3", b"\xe2\x80"])
def test_damage_in_utf_8_costs_only_the_damaged_bytes(damage):
    data = "Größe und ".encode() + damage + " Länge".encode()
    assert decode(data) == (
        "Größe und \ufffd Länge",
        ("not UTF-8 at byte 12: unreadable bytes were replaced",),
    )


def test_letters_far_behind_in_a_long_file_decide_too():
    text = "A long English text. " * 100_000 + "\nСегодня хорошая погода, и мы пошли гулять в лес.\n"
    assert decode(text.encode("cp1251"))[0] == text


@pytest.mark.parametrize("between", ["\n", " "])
def test_a_sample_of_a_long_file_is_not_cut_within_a_character(between):
    text = between.join(["x今日は天気がいいので"] * (SAMPLE // 10))
    assert decode(text.encode("cp932")) == (text, ("not UTF-8 at byte 1: read as Shift-JIS",))


@given(st.binary() | st.binary().map(lambda data: codecs.BOM_UTF16_LE + data))
def test_no_bytes_make_decoding_fail_and_it_is_the_same_each_time(data):
    text, warnings = decode(data)
    assert "\0" not in text
    text.encode()
    assert decode(data) == (text, warnings)
    if codecs.BOM_UTF8 not in data[:3] and not warnings:
        assert text.encode() == data


@given(st.sampled_from(list(TEXTS)), st.binary(max_size=50).filter(lambda data: b"\0" not in data))
def test_what_is_ascii_stays_whatever_is_around_it(codec, after):
    data = b"---\nprivate: true\n---\n" + TEXTS[codec][0].encode(codec) + b"\n" + after
    assert decode(data)[0].startswith("---\nprivate: true\n---\n")
    assert read_note("n.md", data).frontmatter == {"private": True}


@pytest.mark.parametrize("codec", ["utf-16", "cp1252", "cp1251"])
def test_a_note_has_the_properties_that_it_has_in_utf_8(codec):
    text = "---\ntitle: Заметка о погоде\ntags: [погода]\n---\n# Погода\n\n[[Дождь]] сегодня.\n"
    if codec == "cp1252":
        text = "---\ntitle: Übersicht\ntags: [größe]\n---\n# Äpfel\n\n[[Düngung]] im März.\n"
    note, expected = read_note("n.md", text.encode(codec)), read_note("n.md", text.encode())
    assert (note.text, note.title, note.tags, note.links) == (
        text,
        expected.title,
        expected.tags,
        expected.links,
    )
    assert [": read as " in warning for warning in note.warnings] == [True]


def test_a_costly_note_is_costly_in_utf_16_too():
    for text in ("[" * 20_000, "- x\n" * 10_000, "| a | b |\n|---|---|\n" + "| a | b |\n" * 5_000):
        assert is_heavy(text.encode())
        assert is_heavy(text.encode("utf-16"))


def test_each_encoding_leaves_ascii_as_it_is():
    ascii_text = "".join(map(chr, range(1, 128)))
    for codec in {encoding_of(text.encode(codec))[1] for codec, text in CASES}:
        assert ascii_text.encode(codec) == ascii_text.encode()
