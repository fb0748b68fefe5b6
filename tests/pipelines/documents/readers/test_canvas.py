import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.documents.read import note_of
from pipelines.documents.readers.canvas import read
from pipelines.errors import DocumentError
from tests.pipelines.documents.blocks import blocks_of, links_of


def node(identifier, kind, x, y, width=250, height=60, **more):
    return {"id": identifier, "type": kind, "x": x, "y": y, "width": width, "height": height, **more}


def canvas(*nodes, edges=()):
    return json.dumps({"nodes": list(nodes), "edges": list(edges)}).encode()


# As Obsidian 1.13 writes it: tabs, one node per line, z-order instead of reading order.
TRIP = b"""{
\t"nodes":[
\t\t{"id":"9b1c","type":"group","x":-400,"y":-300,"width":700,"height":400,"label":"Before we leave"},
\t\t{"id":"77aa","type":"group","x":400,"y":-300,"width":500,"height":400,"label":"On the way"},
\t\t{"id":"c3","type":"text","text":"Train at 9:40\\nPlatform 4","x":420,"y":-260,"width":250,"height":60},
\t\t{"id":"c2","type":"text","text":"## Passports\\nThey expire in *May*, see [[Papers#Renewal|the note]].",\
"x":-380,"y":-100,"width":250,"height":60,"color":"1"},
\t\t{"id":"c1","type":"text","text":"Ask Ana for the [key](Keys/Spare%20key.md#where)","x":-380,"y":-260,\
"width":250,"height":60},
\t\t{"id":"f1","type":"file","file":"Trips/Packing list.md","subpath":"#Winter","x":0,"y":-260,"width":280,"height":300},
\t\t{"id":"f2","type":"file","file":"Trips/map.png","x":700,"y":-200,"width":150,"height":150},
\t\t{"id":"l1","type":"link","url":"https://example.org/trains?from=a","x":420,"y":-100,"width":250,"height":60},
\t\t{"id":"c0","type":"text","text":"Two weeks in autumn","x":-100,"y":300,"width":250,"height":60}
\t],
\t"edges":[
\t\t{"id":"e1","fromNode":"c2","fromSide":"right","toNode":"c3","toSide":"left","label":"needed for"},
\t\t{"id":"e2","fromNode":"f1","fromSide":"right","toNode":"f2","toSide":"left"},
\t\t{"id":"e3","fromNode":"c1","fromSide":"right","toNode":"c3","toSide":"left"}
\t]
}"""


def test_cards_come_by_group_under_its_label_then_from_top_to_bottom():
    document = read("Trip.canvas", TRIP, {})
    assert blocks_of(document) == [
        ("Two weeks in autumn", (), "Two weeks in autumn"),
        (
            "Ask Ana for the [key](Keys/Spare%20key.md#where)",
            ("Before we leave",),
            "Ask Ana for the key",
        ),
        (
            "## Passports\nThey expire in *May*, see [[Papers#Renewal|the note]].",
            ("Before we leave", "Passports"),
            "Passports",
        ),
        ("Trips/Packing list.md#Winter", ("Before we leave",), "Packing list.md"),
        ("Train at 9:40\nPlatform 4", ("On the way",), "Train at 9:40"),
        ("Trips/map.png\nhttps://example.org/trains?from=a", ("On the way",), "map.png"),
        (
            "Passports — needed for → Train at 9:40\nPacking list.md → map.png",
            ("Connections",),
            "Connections",
        ),
    ]
    assert [block.label for block in document.blocks][:3] == ["", "Before we leave", "Passports"]
    assert (document.title, document.warnings) == ("", ())


def test_file_cards_links_in_cards_and_edges_between_files_are_links():
    assert links_of(read("Trip.canvas", TRIP, {})) == [
        ("Keys/Spare key.md", "where", "key", False, "Ask Ana for the [key](Keys/Spare%20key.md#where)"),
        ("Papers", "Renewal", "the note", False, "They expire in *May*, see [[Papers#Renewal|the note]]."),
        ("Trips/Packing list.md", "Winter", "", True, "Trips/Packing list.md#Winter"),
        ("Trips/map.png", "", "", True, "Trips/map.png"),
        ("Trips/Packing list.md", "Winter", "", False, "Packing list.md → map.png"),
        ("Trips/map.png", "", "", False, "Packing list.md → map.png"),
    ]


def test_groups_nest_and_the_innermost_holds_a_card():
    document = read(
        "Plan.canvas",
        canvas(
            node("a", "group", 0, 0, 1000, 1000, label="House"),
            node("b", "group", 100, 100, 600, 600, label="Kitchen"),
            node("n", "group", 120, 120, 300, 300),
            node("1", "text", 130, 130, text="Sink"),
            node("2", "text", 800, 10, 100, 50, text="Roof"),
            node("3", "text", 500, 500, text="Table"),
            node("4", "text", 600, 640, 180, 100, text="Sticks out a little"),
            node("5", "text", 950, 500, 400, 400, text="Mostly outside"),
        ),
        {},
    )
    assert [(text, headings) for text, headings, _ in blocks_of(document)] == [
        ("Mostly outside", ()),
        ("Roof", ("House",)),
        ("Table", ("House", "Kitchen")),
        ("Sticks out a little", ("House", "Kitchen")),
        ("Sink", ("House", "Kitchen")),
    ]


def test_two_groups_of_one_name_stay_apart():
    document = read(
        "Board.canvas",
        canvas(
            node("b", "group", 0, 500, 400, 400, label="Ideas"),
            node("a", "group", 0, 0, 400, 400, label="Ideas"),
            node("1", "file", 10, 510, file="Second.md"),
            node("2", "file", 10, 10, file="First.md"),
        ),
        {},
    )
    assert blocks_of(document) == [
        ("First.md", ("Ideas",), "First.md"),
        ("Second.md", ("Ideas",), "Second.md"),
    ]


def test_cycles_arrows_and_edges_to_nothing():
    document = read(
        "Loop.canvas",
        canvas(
            node("1", "text", 0, 0, text="Rain"),
            node("2", "text", 0, 100, text="River"),
            node("3", "group", 500, 0, label="Sea"),
            edges=[
                {"fromNode": "1", "toNode": "2", "label": "feeds"},
                {"fromNode": "2", "toNode": "1", "label": "returns as", "fromEnd": "arrow", "toEnd": "none"},
                {"fromNode": "1", "toNode": "1", "label": "is", "toEnd": "none"},
                {"fromNode": "2", "toNode": "3", "label": "both\nways", "fromEnd": "arrow"},
                {"fromNode": "1", "toNode": "gone", "label": "nowhere"},
                {"label": "no ends"},
                "not an edge",
            ],
        ),
        {},
    )
    assert blocks_of(document)[-1][0].split("\n") == [
        "Rain — feeds → River",
        "River — returns as ← Rain",
        "Rain — is — Rain",
        "River — both ways ↔ Sea",
    ]


def test_an_edge_means_the_first_of_two_nodes_with_one_id_and_both_are_indexed():
    document = read(
        "Twice.canvas",
        canvas(
            node("1", "text", 0, 0, text="First"),
            node("1", "text", 0, 100, text="Second"),
            node("2", "text", 0, 200, text="Third"),
            edges=[{"fromNode": "1", "toNode": "2", "label": "to"}],
        ),
        {},
    )
    assert [text for text, _, _ in blocks_of(document)] == ["First", "Second", "Third", "First — to → Third"]


def test_wrong_types_are_left_out_and_counted():
    nodes = [
        7,
        None,
        {"type": "text", "text": ["no"]},
        {"type": "file"},
        {"type": "video", "text": "no"},
        {"type": ["text"], "text": "no"},
        {"type": "text", "text": "Left", "x": "0", "y": None, "width": True, "height": {}},
        {"type": "text", "text": "Far", "x": 10**400, "y": 1e308},
        {"type": "group", "label": 5, "x": 0, "y": 0, "width": 1e308, "height": 1e308},
        {"type": "text", "text": "A half \ud83d of a pair, and \0"},
    ]
    document = read("Odd.canvas", canvas(*nodes, edges={"no": "list"}), {})
    assert [text for text, _, _ in blocks_of(document)] == [
        "Left",
        "A half \ufffd of a pair, and \ufffd",
        "Far",
    ]
    assert document.warnings == ("nodes that are not of a known form were left out: 7",)
    document.text.encode()


@pytest.mark.parametrize("data", [b"", b" \n", b"{}", b'{"nodes":[],"edges":[]}'])
def test_an_empty_canvas_has_no_blocks(data):
    assert read("New.canvas", data, {}).blocks == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (TRIP[:700], r"'a\.canvas' is not valid JSON \(line \d+, column \d+: .*\); restore it"),
        (b"%PDF-1.7\n%\xe2\xe3", r"'a\.canvas' is not valid JSON \(line 1, column 1: Expecting value\)"),
        (b"PK\x03\x04\x00\xff", r"'a\.canvas' is not valid JSON"),
        (b"[" * 100_000, r"'a\.canvas' is nested deeper than 100 levels"),
        (b'{"nodes":' + b"[" * 200 + b"]" * 200 + b"}", r"'a\.canvas' is nested deeper than 100 levels"),
        (b'{"nodes":[{"x":' + b"9" * 5000 + b"}]}", r"'a\.canvas' has a number that cannot be read"),
        (b'["a list"]', r"'a\.canvas' is not a canvas: it has no list of nodes"),
        (b'{"nodes":{"a":1}}', r"'a\.canvas' is not a canvas: it has no list of nodes"),
    ],
)
def test_a_damaged_file_is_refused_with_its_reason(data, reason):
    with pytest.raises(DocumentError, match=reason):
        read("a.canvas", data, {})


def test_the_ceilings_cut_and_say_so(monkeypatch):
    monkeypatch.setattr("pipelines.documents.readers.canvas.MOST_NODES", 3)
    monkeypatch.setattr("pipelines.documents.readers.canvas.MOST_EDGES", 1)
    monkeypatch.setattr("pipelines.documents.readers.canvas.MOST_CHARACTERS", 12)
    edges = [{"fromNode": "0", "toNode": "1", "label": "to"}] * 2
    nodes = [node(str(n), "text", 0, n, text=f"Card {n}") for n in range(5)]
    document = read("Big.canvas", canvas(*nodes, edges=edges), {})
    assert document.text == "Card 0\n\nCard 1"
    assert document.warnings == (
        "only the first 3 of 5 nodes were read",
        "only the first 1 of 2 edges were read",
        "only the first 12 characters were read",
    )


def test_of_a_hundred_thousand_nodes_the_first_ten_thousand_are_read(monkeypatch):
    monkeypatch.setattr("pipelines.documents.readers.canvas.MOST_GROUPS", 5)
    monkeypatch.setattr("pipelines.documents.readers.canvas.MOST_GROUPS", 5)
    groups = [node(f"g{n}", "group", 0, n * 2_000, 300, 2_000, label=f"Group {n}") for n in range(6)]
    cards = [node(str(n), "text", n % 100, n * 0.9, text=f"Card {n}") for n in range(100_000)]
    document = read("Huge.canvas", canvas(*groups, *cards), {})
    assert len(document.blocks) == 9_994
    assert document.warnings == (
        "only the first 10,000 of 100,006 nodes were read",
        "only the first 5 of 6 groups were used",
    )
    assert [document.blocks[n].headings for n in (0, -1)] == [("Group 0",), ("Group 4",)]


@settings(max_examples=60)
@given(st.data())
def test_a_canvas_with_any_damage_gives_a_document_or_a_reason(data):
    damaged = bytearray(TRIP[: data.draw(st.integers(1, len(TRIP)), label="length")])
    for _ in range(data.draw(st.integers(0, 5), label="flips")):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DocumentError):
        read("a.canvas", bytes(damaged), {}).text.encode()


@pytest.mark.parametrize("text", ["A surprise. #private", "---\ntags: [Private/family]\n---\nA surprise."])
def test_a_canvas_with_a_card_that_is_tagged_private_is_private(text):
    document = read(
        "a.canvas", canvas(node("a", "text", 0, 0, text=text), node("b", "text", 9, 9, text="b")), {}
    )
    assert note_of("a.canvas", document).privacy.private


def test_a_canvas_with_too_many_tags_to_keep_counts_as_private():
    text = " ".join(f"#tag{number}" for number in range(2_000))
    assert read("a.canvas", canvas(node("a", "text", 0, 0, text=text)), {}).metadata == {"private": True}
