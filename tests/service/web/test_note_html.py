"""A note as HTML: its Markdown, where its links lead, the lines of its blocks, and that nothing is active."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.notes.markdown import parse_note
from service.web.note_html import Targets, anchor, note_address, render_note, slug

ATTRIBUTES = {
    "a": {"class", "rel", "href"},
    "blockquote": {"class"},
    "br": set(),
    "code": {"class"},
    "div": {"class", "id", "data-end", "tabindex", "role", "aria-label"},
    "em": set(),
    "hr": set(),
    "img": {"src", "alt", "loading", "width", "height"},
    "li": set(),
    "ol": {"start"},
    "p": {"id", "data-end"},
    "pre": {"class", "id", "data-end", "tabindex", "data-language"},
    "s": set(),
    "span": {"class", "id", "data-end", "title", "role", "aria-label"},
    "mark": set(),
    "strong": {"class"},
    "sup": {"id"},
    "table": set(),
    "tbody": set(),
    "td": {"class"},
    "th": {"class"},
    "thead": set(),
    "tr": {"id", "data-end"},
    "ul": set(),
    **{f"h{level}": {"id", "data-end"} for level in range(1, 7)},
}
"""Every HTML tag that a page of a note may have, with its attributes."""

CLASSES = {
    "leaving",
    "embed",
    "tag",
    "dead",
    "math",
    "comment",
    "task",
    "title",
    "scroll",
    "footnote",
    "picture",
}
CLASSES |= {
    "diagram",
    "math display",
    "block-id",
    "center",
    "right",
    *(f"callout {look}" for look in ("note", "tip", "warning", "danger")),
}
IDS = re.compile(r"L\d+|(?:h|b|fn|fnref)-.*", re.DOTALL)
ADDRESSES = re.compile(
    r"https?://|mailto:|/notes/|/files/|/\?(?:q|tag)=|#(?:h|b|fn|fnref)-|obsidian://open\?path=[\w.%~-]+\Z"
)
MEANT = {
    "Note": "a/Note.md",
    "Note.md": "a/Note.md",
    "p.svg": "p.svg",
    "q.png": "a/q #.png",
    "gone": None,
    "x": 'q"u<o>#?%41.md',
}


PICTURES = {"a/q #.png"}


def opener(path):
    return "obsidian://open?path=" + path.replace("/", "%2F")


class Elements(HTMLParser):
    """The elements of a page, checked as they come, and the text between them."""

    VOID = ("br", "hr", "img")

    def __init__(self, page):
        super().__init__()
        self.found, self.open, self.text = [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        assert tag in ATTRIBUTES
        assert set(has) <= ATTRIBUTES[tag], (tag, has)
        assert len(has) == len(attrs)
        assert has.get("class", "tag") in CLASSES
        assert IDS.fullmatch(has.get("id", "L1"))
        assert ADDRESSES.match(has.get("href", "https://")), has
        assert has.get("src", "/files/a/q%20%23.png") == "/files/a/q%20%23.png"
        assert has.get("width", "1").isdecimal()
        self.found.append((tag, has))
        if tag not in self.VOID:
            assert not (tag == "a" and "a" in self.open), "a link in a link"
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    handle_decl = unknown_decl = handle_pi = handle_comment


def rendered(text, meant=MEANT):
    return render_note(text, Targets(meant, opener, pictures=PICTURES))


def html_of(text):
    note = rendered(text)
    return str(note.heading + note.body)


def elements_of(text):
    """Return the elements of everything that a note becomes; each is one that we write ourselves."""
    note = rendered(text)
    values = "".join(
        f"<p{note.property_lines}>{value}</p>" for _, values in note.properties for value in values
    )
    found = Elements(values + str(note.heading + note.body))
    ids = [has["id"] for _, has in Elements(note.heading + note.body).found if "id" in has]
    assert len(ids) == len(set(ids))
    return found


HOSTILE = [
    "<script>alert(1)</script>",
    "<svg onload=alert(1)><image href=x></svg>",
    "a <img src=x onerror=alert(1)> b",
    "<!-- c --><?php x ?><![CDATA[ x ]]>",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) ![d](data:image/svg+xml,x)",
    "[a](<java\nscript:alert(1)>) [b](vbscript:x) [c](file:///etc/passwd) [d](//example.org/x)",
    "[a](&#106;avascript:alert(1)) [b](java&Tab;script:alert(1)) <javascript:alert(1)> <data:text/html,x>",
    "[a](obsidian://advanced-uri?commandid=x) [b](about:blank) [c](blob:x)",
    "[a]: javascript:alert(1)\n\n[a] ![a] [x][a]",
    '[[x" onclick="alert(1)]] [[x|<b>]] ![[x"><script>]] [[Note#"><script>]]',
    '[a](https://x.org/"onclick="x) <https://x.org/<script>> https://x.org/"><script>',
    '```"><script>\n</code></pre><script>\n```',
    '``` x" onclick="y\n```',
    '> [!"><script>] t\n\n> [!note] <b>t</b>',
    '[^"><script>]: <b>x</b>\n\na[^"><script>]',
    '# <b id=q>x</b> ^"x',
    "# h\n\n# h\n\n# h-1\n\n## L1 ^L1\n\ntext ^h\n\ntext ^h",
    "- [ ] <b>x</b>\n- [x] y",
    '|<b>|"|\n|:-:|--:|\n|<br onclick=x>|<br/>|',
    "$<b>$ %%<b>%% `<b>`\n\n$$\n<script>\n$$\n\n%%\n<script>\n%%",
    '#tag/<b> #a"b',
    "[![i](https://x) [[Note]] #t https://y [^1]](https://z)\n\n[^1]: x",
    '![[q.png|"><script>|300]] ![<b>"](q.png) ![[q.png|onerror=x|1x2]] ![x|9999999](q.png) [![a](q.png)](https://z)',
    "---\na: <script>\nb: '[[Note|<b>]]'\nc: 'https://x.org/\"<b>'\nd: {<b>: '\"'}\n---\n",
    "---\n<script>: [\n---\n# t",
    "- - - - > 1. # x\n\n\ttab\n\n***\n",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_of_a_note_is_text_and_its_links_lead_to_notes_and_the_web_alone(text):
    elements_of(text)


PIECES = [*HOSTILE, "[[", "]]", "![[", "](", "[", "]", "(", ")", "<", ">", '"', "'", "&", "&lt;", "\\", "`", "```\n", "\n",
          "\n\n", "> ", "- ", "1. ", "# ", "|", "---\n", "javascript:", "data:", "https://x.org/", "mailto:a@b", "[^1]", "[^1]: ",
          "$", "$$", "%%", " ^id", "[ ] ", "[!note] ", "Note", "onclick=x", "<a href=", "\t", "    ", "*", "**", "~~", "\0", "\x1b",
          "\u202e", "\ufffd", "é", "\r"]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=25).map("".join))
@example("[[Note#^]]\n#\n[^]: x")
def test_no_note_gives_an_element_that_we_did_not_write(text):
    elements_of(text)


@given(st.lists(st.sampled_from(PIECES), max_size=15).map("".join))
def test_every_block_says_a_line_that_the_note_has(text):
    last = text.count("\n") + text.count("\r") + 1
    for _, attributes in elements_of(text).found:
        if "data-end" in attributes:
            assert 1 <= int(attributes["id"][1:]) <= int(attributes["data-end"]) <= last


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[Note]]", '<a href="/notes/a/Note.md">Note</a>'),
        ("[[Note|n]]", '<a href="/notes/a/Note.md">n</a>'),
        ("[[Note#What's new]]", '<a href="/notes/a/Note.md#h-whats-new">Note › What&#39;s new</a>'),
        ("[[Note#A#B c]]", '<a href="/notes/a/Note.md#h-b-c">Note › A › B c</a>'),
        ("[[Note#^one]]", '<a href="/notes/a/Note.md#b-one">Note › ^one</a>'),
        ("[[#Here]]", '<a href="#h-here">Here</a>'),
        ("[t](Note.md#a-heading)", '<a href="/notes/a/Note.md#h-a-heading">t</a>'),
        ("[*t*](Note.md)", '<a href="/notes/a/Note.md"><em>t</em></a>'),
        ("![[Note]]", '<a class="embed" href="/notes/a/Note.md">Note</a>'),
        ("![[q.png]]", '<a class="picture" href="/files/a/q%20%23.png"><img src="/files/a/q%20%23.png" alt="q.png" loading="lazy"></a>'),
        ("![[q.png|300]]", '<a class="picture" href="/files/a/q%20%23.png"><img src="/files/a/q%20%23.png" alt="q.png" loading="lazy" width="300"></a>'),
        ("![A <b>|30x20](q.png)", '<a class="picture" href="/files/a/q%20%23.png"><img src="/files/a/q%20%23.png" alt="A &lt;b&gt;" loading="lazy" width="30" height="20"></a>'),
        ("[![[q.png|a]]](Note.md)", '<a href="/notes/a/Note.md"><img src="/files/a/q%20%23.png" alt="a" loading="lazy"></a>'),
        ("[[q.png]]", '<a href="/files/a/q%20%23.png">q.png</a>'),
        ("![[p.svg]]", '<a class="embed" href="obsidian://open?path=p.svg">p.svg</a>'),
        ("[[gone]]", '<span class="dead" title="No file of this name">gone</span>'),
        ("[[new]]", '<span class="dead" title="Not indexed yet">new</span>'),
        ("[t](gone)", '<span class="dead" title="No file of this name">t</span>'),
        ("![t](https://x.org/i.png)", '<a class="leaving" rel="noreferrer noopener" href="https://x.org/i.png">t</a>'),
        ("**a** ~~b~~", "<strong>a</strong> <s>b</s>"),
        ("==a **b** c==", "<mark>a <strong>b</strong> c</mark>"),
        ("**==a==** x == y and z == w ===c===", "<strong><mark>a</mark></strong> x == y and z == w ===c==="),
        ("*==a* b==", "<em>==a</em> b=="),
        ("==`a==` [[x==y]]==", '<mark><code>a==</code> <span class="dead" title="Not indexed yet">x==y</span></mark>'),
        ("a <!-- b --> c", 'a <span class="comment">&lt;!-- b --&gt;</span> c'),
        ("$a<b$", '<span class="math">a&lt;b</span>'),
        ("$$a<b$$", '<span class="math display">a&lt;b</span>'),
        ("#a/b-c", '<a class="tag" href="/?q=a+b+c&amp;tag=a%2Fb-c">#a/b-c</a>'),
        ("see https://x.org/a.", 'see <a class="leaving" rel="noreferrer noopener" href="https://x.org/a">https://x.org/a</a>.'),
        ("a\nb", "a<br>\nb"),
        ("x ^one", 'x<span class="block-id" id="b-one"></span>'),
    ],
)  # fmt: skip
def test_the_parts_of_a_line(text, expected):
    assert html_of(text) == f'<p id="L1" data-end="{text.count(chr(10)) + 1}">{expected}</p>\n'


def test_the_page_shows_as_links_what_the_index_has_as_links():
    text = "[[Note]] `[[a]]` <b>[[b]]</b> $[[c]]$ %%[[d]]%%\n\n    [[e]]\n\n<div>\n[[f]]\n</div>\n\n[x](Note.md) ![[p.svg]]"
    links = parse_note("s.md", text).links
    found = [has["href"] for _, has in elements_of(text).found if "href" in has]
    assert len(found) == len([link for link in links if MEANT.get(link.target)])


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("> a", "<blockquote>"),
        ("> [!bug] t\n> a", '<blockquote class="callout danger">'),
        ("> [!Tip]", '<blockquote class="callout tip">'),
        ("> [!own]", '<blockquote class="callout note">'),
        ("3. a", '<ol start="3">'),
        ("```py x\na\n```", '<pre tabindex="0" id="L1" data-end="3" data-language="py">'),
        ("$$\na<b\n$$", '<div class="math display" id="L1" data-end="3">\na&lt;b\n</div>'),
        (
            "```Mermaid x\na<b\n```",
            '<div class="diagram" id="L1" data-end="3"><pre tabindex="0" data-language="Mermaid"><code>a&lt;b\n',
        ),
        ("%%\na\n%%", '<pre tabindex="0" id="L1" data-end="3" class="comment">'),
        ("<!-- a\n-->", '<pre tabindex="0" id="L1" data-end="2" class="comment">'),
        ("<b>", '<pre tabindex="0" id="L1" data-end="1"><code>&lt;b&gt;'),
        ("- [x] a", '<ul><li><span id="L1" data-end="1"><span class="task" role="img" aria-label="done">'),
        ("[^n]: a", '<div class="footnote" id="fn-n">'),
    ],
)
def test_what_blocks_there_are(text, opening):
    assert html_of(text).startswith(opening)


def test_lines_are_those_of_the_file_and_each_row_of_a_table_has_its_own():
    text = "---\ntitle: t\n---\n\n# T\r\n\r\nfirst\rsecond\n\n|a|\n|-|\n|b|\n\n- x\n  - y\n"
    lines = {has["id"]: has["data-end"] for _, has in elements_of(text).found if "data-end" in has}
    assert lines.pop("L1") == "3"
    assert lines == {"L5": "5", "L7": "8", "L10": "10", "L12": "12", "L14": "14", "L15": "15"}


def test_the_outline_leads_to_the_headings_also_to_two_of_one_name():
    note = rendered("# T\n\n## What's *new*?\n\n## a\n\n## a\n\n- # in a list\n")
    assert [(entry.level, entry.text, entry.id) for entry in note.outline] == [
        (2, "What's new?", "h-whats-new"),
        (2, "a", "h-a"),
        (2, "a", "h-a-1"),
    ]
    assert note.heading.startswith('<h1 id="L1"')
    for entry in note.outline:
        assert f'id="{entry.id}"' in note.body


def test_frontmatter_is_a_table_and_what_is_none_is_shown_as_it_is_written():
    note = rendered("---\nup: '[[Note]]'\ntags: [a, b]\nempty:\nn: 2\n---\nx")
    assert note.properties == (
        ("up", ('<a href="/notes/a/Note.md">Note</a>',)),
        ("tags", ('<a href="/?tag=a">a</a>', '<a href="/?tag=b">b</a>')),
        ("empty", ()),
        ("n", ('<a href="/?q=%5Bn%3A2%5D">2</a>',)),
    )
    broken = rendered("---\na: [\n---\n# t")
    assert broken.properties == ()
    assert "a: [" in Elements(broken.body).text
    assert broken.outline == ()
    partly = rendered("---\na: [\nb: No\n---\n# t")
    assert partly.properties == (("b", ('<a href="/?q=%5Bb%3ANo%5D">No</a>',)),)
    assert "a: [" in Elements(partly.body).text
    twice = rendered("---\nb: 1\nb: 2\n---\n# t")
    assert "b: 1" not in Elements(twice.body).text


def test_a_headings_name_in_an_address_is_the_same_written_as_a_heading_or_as_an_address():
    for heading in ("What's new?", "A & B", "Größe 2", "豆腐", "a_b-c"):
        assert slug(slug(heading)) == slug(heading)
        assert anchor(heading) == anchor(slug(heading))
    assert note_address("a b/c#d?.md") == "/notes/a%20b/c%23d%3F.md"
