from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.documents.readers.html import read
from pipelines.errors import DocumentError
from tests.pipelines.documents.blocks import blocks_of, links_of

# A blog's article, as its program writes it.
ARTICLE = """<!DOCTYPE html>
<html lang="en"><head>
<meta charset="utf-8">
<title>Soil &amp; water</title>
<meta name="author" content="Ana Lima">
<meta name="keywords" content="soil, two words, 2024, Water/rain">
<meta property="article:published_time" content="2024-05-01T10:00:00Z">
<style>p { margin: 0 }</style><script>document.write("no")</script>
</head><body class="post">
<header><a href="/">The garden blog</a></header>
<nav><ul><li><a href="/about">About</a></li></ul></nav>
<main><article>
<header><h1>Soil <em>and</em> water</h1><p>By Ana</p></header>
<p>Rain   fell on
<a href="Field%20notes.html?utm=x#May">the <b>field</b></a> and <a href="https://example.org">elsewhere</a>.<br>A new line.</p>
<ul><li>Cabbage</li>
<li><p>Beans, <i>twice</i></p><ul><li>in May</li></ul></li></ul>
<h2 id="w">Weights</h2>
<table><caption>In kilograms</caption>
<thead><tr><th>Crop</th><th>2023</th><th>2024</th></tr></thead>
<tbody><tr><td><p>Cabbage</p></td><td></td><td>12</td></tr></tbody></table>
<p hidden>Not shown</p><div style="color: red; DISPLAY : none">Not shown</div><span aria-hidden="true">★</span>
<a href="map.html"><h3>The map</h3></a>
<figure><img src="img/the%20map.png" alt="A map"><figcaption>Drawn in May</figcaption></figure>
<img src="data:image/png;base64,AAAA"><img src="//cdn.example.org/a.png">
<noscript>Switch it on</noscript><template><p>Later</p></template>
<footer>Filed under soil</footer>
</article><aside>In the main part</aside></main>
<aside>Advertisement</aside><footer>Imprint</footer>
</body></html>""".encode()
FIRST_LINES = "Rain fell on the field and elsewhere.\nA new line."

# A letter saved by a word processor as a web page, in its old character set.
LETTER = """<html xmlns:o="urn:schemas-microsoft-com:office:office">
<head>
<meta http-equiv=Content-Type content="text/html; charset=windows-1252">
<meta name=Generator content="Microsoft Word 15">
<title></title>
<!--[if gte mso 9]><xml><o:DocumentProperties><o:Author>Nobody</o:Author></o:DocumentProperties></xml><![endif]-->
</head>
<body lang=DE>
<div class=WordSection1>
<h1>Angebot für Frau Müller<o:p></o:p></h1>
<p class=MsoNormal>Wir liefern 20&nbsp;Säcke – zu <span style='font-family:"Arial"'>12&#8364;</span>.<o:p></o:p></p>
<p class=MsoNormal><o:p>&nbsp;</o:p></p>
<p class=MsoNormal><a href="Preise\u00fc.html">Preisliste</a><o:p></o:p></p>
</div>
</body>
</html>""".encode("cp1252")

# A page of a library's documentation: no main part, highlighted code, headings out of order.
MANUAL = b"""<!doctype html><html><head><title>gate - How to
 open</title></head><body>
<div class="sidebar" role="navigation"><nav>Contents</nav></div>
<div class="document">
<p>Before any heading.</p>
<h3>Usage<a class="headerlink" href="#usage" title="Link to this heading">#</a></h3>
<div class="highlight"><pre><span></span><span class="k">def</span> <span class="nf">open_gate</span>():
    <span class="k">return</span> <span class="mi">1</span>
</pre></div>
<dl><dt>open_gate</dt><dd>Opens   it.</dd></dl>
<h1>API</h1>
<p>See <a href="#usage">above</a>, <a href="mailto:a@example.org">us</a>, <a href="../other/">others</a>.</p>
</div>
<footer>Made by hand</footer></body></html>"""


def test_the_main_part_is_read_under_its_headings():
    document = read("Soil.html", ARTICLE, {})
    assert blocks_of(document) == [
        (
            f"Soil and water\n\nBy Ana\n\n{FIRST_LINES}\n\n- Cabbage\n- Beans, twice\n- in May",
            ("Soil and water",),
            None,
        ),
        (
            "Weights\n\nIn kilograms\nCrop | 2023 | 2024\nCabbage | | 12",
            ("Soil and water", "Weights"),
            None,
        ),
        (
            "The map\n\nDrawn in May\n\nFiled under soil\nIn the main part",
            ("Soil and water", "Weights", "The map"),
            None,
        ),
    ]
    assert [block.label for block in document.blocks] == ["Soil and water", "Weights", "The map"]
    assert document.warnings == ()


def test_title_author_date_and_valid_tags_are_those_that_the_page_states():
    document = read("Soil.html", ARTICLE, {})
    assert document.title == "Soil & water"
    assert document.metadata == {
        "author": "Ana Lima",
        "date": "2024-05-01",
        "tags": ["soil", "Water/rain"],
        "_inside": {"tags": ["two words", "2024"]},  # no tags, but what is private there is private
    }
    vague = b"<title> </title><meta name=date content='last May'><meta name=author content=''><h1>By <i>name</i></h1>"
    assert (read("a.html", vague, {}).title, read("a.html", vague, {}).metadata) == ("By name", {})


def test_links_to_files_are_decoded_and_links_elsewhere_are_none():
    assert links_of(read("Soil.html", ARTICLE, {})) == [
        ("Field notes.html", "May", "the field", False, "Rain fell on the field and elsewhere."),
        ("map.html", "", "The map", False, "The map"),
        ("img/the map.png", "", "A map", True, "Drawn in May"),
    ]
    assert [link.target for link in read("a.html", MANUAL, {}).links] == ["../other/"]


def test_a_page_of_a_word_processor_is_read_in_its_character_set():
    document = read("Angebot.htm", LETTER, {})
    assert blocks_of(document) == [
        (
            "Angebot für Frau Müller\n\nWir liefern 20 Säcke – zu 12€.\n\nPreisliste",
            ("Angebot für Frau Müller",),
            None,
        )
    ]
    assert document.title == "Angebot für Frau Müller"
    assert [link.target for link in document.links] == ["Preiseü.html"]


def test_a_page_without_a_main_part_is_read_whole_and_code_keeps_its_lines():
    document = read("gate.html", MANUAL, {})
    assert blocks_of(document) == [
        ("Before any heading.", (), None),
        (
            "Usage\n\ndef open_gate():\n    return 1\n\nopen_gate\nOpens it.",
            ("Usage",),
            None,
        ),
        ("API\n\nSee above, us, others.", ("API",), None),
    ]
    assert document.title == "gate - How to open"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<p>Größe".encode(), "Größe"),
        ("<p>Größe".encode("utf-8-sig"), "Größe"),
        ("<meta charset=koi8-r><p>Größe".encode("utf-16"), "Größe"),
        ("<meta charset='ISO-8859-1'><p>“Größe”".encode("cp1252"), "“Größe”"),
        ("<meta charset=shift_jis><p>土".encode("shift_jis"), "土"),
        ("<meta charset=x-unknown><p>Größe".encode(), "Größe"),
        (b"<meta charset=unicode_escape><p>\\x41", "\\x41"),
        ("<p>Größe".encode("cp1252"), "Größe"),
        (b"<p>one\x00two", "one\ufffdtwo"),
    ],
)
def test_the_character_set_is_that_of_the_mark_or_declared_or_a_guess(data, text):
    assert read("a.html", data, {}).text == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<article>One</article>Two", "One"),
        ("<article>One</article><article>Two</article>", "One\nTwo"),
        ("<main> </main><p>Outside", "Outside"),
        ("<section><header>Of a part</header></section><header>Of the page</header>", "Of a part"),
        ("<table><tr><td>a<table><tr><td>b<td>c</table><td>d<br>e</table>", "a b | c | d e"),
        ("<table><tr><td><td></table><p>x", "x"),
        ("<ol><li><li>one<li><div><p>two", "- one\n- two"),
        ("a<b>b</b> <i> c</i>&nbsp;d<span> </span>", "ab c d"),
        ("<pre>\na\n  b\n\n</pre>c", "a\n  b\n\nc"),
        ("a<h2> </h2>b", "a\n\nb"),
        ("<p>&#0;&#xD800;x", "\ufffd\ufffdx"),
    ],
)
def test_layout_is_that_of_a_browser(markup, text):
    assert read("a.html", markup.encode(), {}).text == text


# Files that cannot be read


@pytest.mark.parametrize("data", [b"PK\x03\x04\x00\xff", b"%PDF-1.7\n\x00\xe2\xe3"])
def test_a_binary_file_is_refused_with_its_reason(data):
    with pytest.raises(DocumentError, match=r"^'a\.html' is not a web page \(not a text: .* NUL bytes\)"):
        read("a.html", data, {})


@pytest.mark.parametrize("data", [b"", b"<!--", b"<frameset><frame src=a>", b"<body><script>draw()</script>"])
def test_a_page_without_text_says_so(data):
    document = read("a.html", data, {})
    assert document.blocks == ()
    assert document.warnings == ("the page has no text; what it shows may be made by a program",)


def test_deep_nesting_and_endless_entities_are_read():
    assert read("a.html", b"<div>" * 5_000 + b"deep", {}).text == "deep"
    assert read("a.html", b"<table><tr><td>" * 2_000 + b"deep", {}).text == "deep"
    bomb = b'<!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]><p>&b;&c;'
    assert read("a.html", bomb, {}).text.endswith("&b;&c;")


def test_text_is_cut_at_its_ceiling(monkeypatch):
    monkeypatch.setattr("pipelines.documents.readers.html.MOST_CHARACTERS", 20)
    monkeypatch.setattr("pipelines.documents.readers.html.MOST_CHARACTERS", 20)
    document = read("a.html", b"<h1>One</h1><a href=a>First</a><h1>Two</h1><p>The second part<p>More", {})
    assert document.text == "One\n\nFirst\n\nTwo\n\nThe s"
    assert document.warnings == ("only the first 20 characters were read",)


@settings(max_examples=60)
@given(st.data())
def test_a_page_with_any_damage_gives_a_document_or_a_reason(data):
    damaged = bytearray(ARTICLE[: data.draw(st.integers(1, len(ARTICLE)), label="length")])
    for _ in range(data.draw(st.integers(0, 20), label="flips")):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DocumentError):
        document = read("a.html", bytes(damaged), {})
        document.text.encode()
        assert all(0 <= link.at <= len(document.text) for link in document.links)
