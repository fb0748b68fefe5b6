"""YAML and JSON are parsed without following, constructing or expanding anything."""

from __future__ import annotations

import pytest

from pipelines.documents.readers.record_values import Limit, Typed, as_plain, parse
from pipelines.errors import DocumentError

LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


def values(text, path="a.yaml"):
    return [
        as_plain(document) for document in parse(path, text if isinstance(text, bytes) else text.encode())[0]
    ]


@pytest.mark.parametrize("path", ["a.yaml", "a.json"])
def test_both_formats_give_the_same_values(path):
    text = '{"name": "x", "n": 1, "f": 1.5, "v": 1.50, "yes": true, "no": null, "list": [1, "a", []], "in": {"deep": {}}}'
    assert values(text, path) == [
        {
            "name": "x",
            "n": 1,
            "f": 1.5,
            "v": "1.50",
            "yes": True,
            "no": None,
            "list": [1, "a", []],
            "in": {"deep": {}},
        }
    ]


def test_numbers_and_dates_keep_their_text():
    ((yaml,), _) = parse("a.yml", b"a: 26.0\nb: 2024-05-01\nc: 1_000\nd: '7'")
    assert yaml == {
        "a": Typed("26.0", 26.0),
        "b": Typed("2024-05-01", "2024-05-01"),
        "c": Typed("1_000", 1000),
        "d": "7",
    }
    assert parse("a.JSON", b'{"a": 26.0, "b": 1e3}')[0] == [
        {"a": Typed("26.0", 26.0), "b": Typed("1e3", 1000.0)}
    ]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.json", "[NaN, -Infinity, 1e999]", ["NaN", "-Infinity", "1e999"]),
        ("a.json", f"[{'9' * 5000}]", ["9" * 5000]),
        ("a.yaml", "[.nan, .inf]", [".nan", ".inf"]),
        ("a.yaml", f"[{'9' * 5000}]", ["9" * 5000]),
        ("a.yaml", "[2024-13-45, 2024-05-01T10:00:00Z]", ["2024-13-45", "2024-05-01T10:00:00Z"]),
        ("a.yaml", "[NO, yes, 01234, 12:30, 1_000]", ["NO", "yes", "01234", "12:30", "1_000"]),
        ("a.yaml", "[!!int x, !!bool maybe, !!timestamp x]", ["x", "maybe", "x"]),
        ("a.json", r'["\ud800", "a\u0000b", "\ud83d\ude00"]', ["\ufffd", "a\ufffdb", "\U0001f600"]),
    ],
)
def test_what_no_json_has_and_what_would_lose_its_form_is_text(path, text, expected):
    assert values(text, path) == [expected]


def test_tags_of_applications_construct_nothing():
    text = "a: !!python/object/apply:os.system [echo]\nb: !secret key\nc: !Sub {d: 1}\ne: !!binary aGk=\n"
    assert values(text) == [{"a": ["echo"], "b": "key", "c": {"d": 1}, "e": None}]


def test_each_document_of_a_stream_is_one():
    assert values("---\na: 1\n---\n- 2\n---\ntext\n") == [{"a": 1}, [2], "text"]


@pytest.mark.parametrize("data", [b"", b" \n\n", b"\xef\xbb\xbf", "\ufeff".encode("utf-16-le")])
@pytest.mark.parametrize("path", ["a.yaml", "a.json"])
def test_a_file_without_text_has_no_document(path, data):
    assert parse(path, data) == ([], {})


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_the_mark_of_an_encoding_is_obeyed(encoding):
    assert values('{"a": "ä"}'.encode(encoding)) == [{"a": "ä"}]


@pytest.mark.parametrize(
    ("path", "data", "sentence"),
    [
        ("a.yaml", LAUGHS.encode(), "line 2: the alias `*a0` is not followed"),
        ("a.yaml", b"a: &x [*x]", "line 1: the alias `*x` is not followed"),
        ("a.yaml", b"a: 1\nb: 2\na: 3", "line 3: the key 'a' is written twice"),
        ("a.yaml", b"[a]: 1", "line 1: a list or mapping is used as a key"),
        ("a.yaml", b"a: [1, 2", "not valid YAML: line 2, column 1: did not find expected"),
        ("a.yaml", b"a: 1\n\tb: 2", "not valid YAML: line 2, column 1"),
        ("a.yaml", b"\x89PNG\r\n\x1a\n\0\0", "not text in UTF-8"),
        ("a.yaml", b"a: \0", "not valid YAML"),
        ("a.yaml", b"[" * 101 + b"]" * 101, "nested more than 100 levels deep"),
        ("a.yaml", b"{a: " * 100_000, "nested more than 100 levels deep"),
        ("a.json", b"[" * 101 + b"]" * 101, "nested more than 100 levels deep"),
        ("a.json", b'{"a":' * 100_000, "nested more than 100 levels deep"),
        ("a.json", b'{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is written twice in one object"),
        ("a.json", b'{"a": 1,\n "b": }', "not valid JSON: line 2, column 7: Expecting value"),
        ("a.json", b"{'a': 1}", "not valid JSON: line 1, column 2"),
        ("a.json", b'{"a": 1}\n{"a": 2}', "not valid JSON: line 2, column 1: Extra data"),
        ("a.json", b"\xff\xfeabc", "not text in UTF-8"),
        ("a.json", b"PK\x03\x04\xff", "not text in UTF-8"),
    ],
)
def test_what_is_damaged_or_dangerous_has_its_sentence(path, data, sentence):
    with pytest.raises(DocumentError) as refused:
        parse(path, data)
    assert str(refused.value).startswith(repr(path))
    assert sentence in str(refused.value)


def test_a_hundred_levels_are_read():
    for path in ("a.yaml", "a.json"):
        assert len(parse(path, b"[" * 100 + b"]" * 100)[0]) == 1


def test_values_after_the_limit_are_cut():
    limit = Limit()
    assert len(limit.cut(["x"] * 99_999)) == 99_999
    assert not limit.reached
    assert limit.cut({"a": "b", "c": "d"}) == {"a": "b"}
    assert limit.reached


def test_characters_after_the_limit_are_cut():
    limit = Limit()
    cut = limit.cut({"a": "x" * 4_999_998, "b": ["y" * 9, "z"]})
    assert cut == {"a": "x" * 4_999_998, "b": []}
    assert limit.reached


def test_keys_of_yaml_have_their_lines_and_those_in_lists_have_none():
    text = "a: 1\nb:\n  c: {d: {e: {f: 1}}}\n  g:\n    - h: 1\n---\n\nb: 2\n"
    assert parse("a.yaml", text.encode())[1] == {
        (1, ("a",)): 1,
        (1, ("b",)): 2,
        (1, ("b", "c")): 3,
        (1, ("b", "c", "d")): 3,
        (1, ("b", "c", "d", "e")): 3,
        (1, ("b", "g")): 4,
        (2, ("b",)): 8,
    }
    assert parse("a.json", b'{"a": 1}')[1] == {}
