"""A note's page in a browser: the passage is marked and seen, the keys work, and nothing of a note runs."""

from __future__ import annotations

import sys

import pytest

from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from tests.browser.serving import serving
from tests.browser.stage import Stage
from tests.browser.test_ops import LOOKS, RULES, SHOWN
from workers.resources import Resources

FILLER = "".join(f"Paragraph {number} of the long note.\n\n" for number in range(60))
EVERYTHING = """---
up: "[[Other]]"
tags: [soil]
---
# Everything

Text with **bold**, `code`, $x$, #soil/clay, [[Other|a note]], [[nowhere]], https://example.org/x and a note[^1].

- [ ] to do
- [x] done

> [!warning] Mind
> a callout

| a | b |
|---|--:|
| 1 | 2 |

```python
print("a long line that goes on " + "and on " * 20 + "and on and on and on and on and on and on and on")
```

<script>alert(1)</script> <img src="https://example.org/a.png" onerror="alert(2)"> ![p](https://example.org/b.png)

<svg onload="alert(3)"></svg> [x](javascript:alert(4)) ![[drawn.svg]]

[^1]: The note.
"""


@pytest.fixture
def reading(tmp_path, tiny_model):
    """A vault with a long note, one with everything, and its address."""
    root = tmp_path / "vault"
    root.mkdir()
    long = f"# Long\n\n{FILLER}## The place\n\nHere it is.\n\n- one\n- two\n- three\n\n{FILLER}"
    notes = {"Long.md": long, "Everything.md": EVERYTHING, "Other.md": "# Other\n\n[[Long#The place]]\n"}
    for name, text in notes.items():
        (root / name).write_text(text)
    (root / "drawn.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(5)"></svg>')
    settings = Settings(vault=root, state=tmp_path / "state", embedding_model=str(tiny_model))
    resources = Resources(settings)
    index_once(resources, lambda *_: None)
    with serving(settings) as address:
        yield Stage(settings, resources), address


def marked(page):
    """Return the text that is marked."""
    return page.evaluate(
        "[...CSS.highlights.get('passage') ?? []].map((range) => range.toString()).join()"
    ).strip()


def seen(page):
    """Say whether the marked passage is in the window, below the navigation."""
    return page.evaluate(
        "(() => { const place = [...CSS.highlights.get('passage')][0].getBoundingClientRect();"
        " return place.top > 40 && place.top < innerHeight / 2; })()"
    )


LINE = FILLER.count("\n") + 3  # of the heading "The place"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (f"L{LINE + 2}", "Here it is."),
        (f"L{LINE + 5}", "two"),
        (f"L{LINE + 4}-L{LINE + 5}", "one\ntwo"),
        (f"L{LINE}-{LINE + 2}", "The place\nHere it is."),
        (f"L{LINE + 3}", "Here it is."),  # an empty line: the block before it
    ],
)
def test_the_lines_that_the_address_names_are_marked_and_seen(reading, open_page, lines, text):
    page = open_page(*reading)
    page.goto(f"/notes/Long.md#{lines}")
    page.wait_for_function("CSS.highlights.has('passage')")
    assert marked(page) == text
    assert seen(page)


def test_a_mark_from_the_title_on_leaves_out_the_path_and_the_properties(reading, open_page):
    page = open_page(*reading)
    page.goto("/notes/Everything.md#L5-L7")
    page.wait_for_function("CSS.highlights.has('passage')")
    title, text = marked(page).split(",", 1)
    assert title == "Everything"
    assert text.strip().startswith("Text with bold")
    assert "Everything.md" not in marked(page)
    assert "tags" not in marked(page)
    page.goto("/notes/Everything.md?raw=1#L5-L7")
    page.wait_for_function("CSS.highlights.has('passage')")
    assert marked(page).startswith("# Everything\n\nText with **bold**")


def test_a_passage_of_the_first_screen_leaves_the_page_at_its_top(reading, open_page):
    page = open_page(*reading)
    page.goto("/notes/Long.md#L7")
    drawn = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(scrollY))))"
    assert page.evaluate(drawn) == 0
    assert marked(page) == "Paragraph 2 of the long note."


def test_other_lines_are_marked_when_the_address_changes_and_in_raw_text(reading, open_page):
    page = open_page(*reading)
    page.goto(f"/notes/Long.md#L{LINE + 2}")
    page.wait_for_function("CSS.highlights.has('passage')")
    page.evaluate(f"location.hash = 'L{LINE + 6}'")
    page.wait_for_function("[...CSS.highlights.get('passage')][0].toString().trim() === 'three'")
    page.keyboard.press("r")
    page.wait_for_url(f"**/notes/Long.md?raw=1#L{LINE + 6}")
    page.wait_for_function("CSS.highlights.has('passage')")
    assert marked(page) == "- three"
    assert seen(page)
    page.keyboard.press("r")
    page.wait_for_url(f"**/notes/Long.md#L{LINE + 6}")


def test_a_heading_is_reached_from_a_link_the_outline_and_by_its_name(reading, open_page):
    page = open_page(*reading)
    there = "document.querySelector('#h-the-place').getBoundingClientRect().top"
    page.goto("/notes/Other.md")
    page.get_by_role("link", name="Long › The place").click()
    page.wait_for_url("**/notes/Long.md#h-the-place")
    assert 40 < page.evaluate(there) < 400
    page.goto("/notes/Long.md")
    page.get_by_role("navigation", name="Outline").get_by_role("link", name="The place").click()
    page.wait_for_function(f"{there} < 400")
    page.goto("about:blank")
    page.goto("/notes/Long.md#The%20place")
    page.wait_for_function(f"{there} < 400")
    page.goto("about:blank")
    page.goto("/notes/Long.md#%E0%A4%A")
    assert page.locator("h1").inner_text() == "Long"


def test_a_slash_goes_to_the_search_field_and_what_is_typed_there_is_text(reading, open_page):
    page = open_page(*reading)
    page.goto("/notes/Everything.md")
    page.keyboard.press("/")
    page.keyboard.type("r/soil")
    assert page.get_by_role("searchbox").input_value() == "r/soil"
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=r%2Fsoil")


def test_nothing_of_a_note_runs_or_loads(reading, open_page):
    page = open_page(*reading)
    page.goto("/notes/Everything.md")
    page.locator("#live").wait_for()  # our own script ran to its end
    assert page.locator("article :is(script, svg, iframe, style, object, embed, form, input)").count() == 0
    # A picture of the vault is an image, in which nothing runs.
    pictures = page.locator("article img").evaluate_all("(all) => all.map((one) => one.getAttribute('src'))")
    assert pictures == ["/files/drawn.svg"]
    addresses = page.locator("article a").evaluate_all("(links) => links.map((link) => link.protocol)")
    assert set(addresses) <= {"http:", "https:", "obsidian:"}
    assert "<script>alert(1)</script>" in page.locator("article").inner_text()


DRAWN = r"""# Drawn

$e^{i\pi}$ and $$\sum_n \boxed{n}$$ and $\frac{a$ and a picture: ![[drawn.svg|40]]

```mermaid
flowchart LR
  A[Save] --> B[Index]
```

```mermaid
flowchart LR
  A -->
  ]] broken
```
"""


def test_formulas_and_diagrams_are_drawn_and_what_cannot_be_drawn_is_seen_as_written(reading, open_page):
    stage, address = reading
    (stage.settings.vault / "Drawn.md").write_text(DRAWN)
    index_once(stage.resources, lambda *_: None)
    page = open_page(stage, address)
    page.goto("/notes/Drawn.md")
    page.locator(".math .katex-html").nth(1).wait_for()
    assert page.locator(".math .katex-display").count() == 1
    assert page.get_by_text("\\frac{a").is_visible()
    assert page.locator("article img").evaluate("(picture) => picture.width") == 40
    good, broken = page.locator(".diagram").all()
    page.wait_for_function(
        "() => document.querySelector('.diagram').shadowRoot?.querySelector('iframe').offsetHeight > 30"
    )
    assert good.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    frame = good.frame_locator("iframe")
    assert frame.locator("svg").get_by_text("Index", exact=True).is_visible()
    assert not page.get_by_text("A[Save]").is_visible()
    good.get_by_text("Source of the diagram").click()
    assert page.get_by_text("A[Save]").is_visible()
    broken.scroll_into_view_if_needed()
    page.get_by_text("This diagram cannot be drawn").wait_for()
    assert page.get_by_text("]] broken").is_visible()


def test_a_note_without_formulas_and_diagrams_loads_nothing_that_draws(reading, open_page):
    page = open_page(*reading)
    asked = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.goto("/notes/Long.md", wait_until="load")
    page.locator("#live").wait_for()
    assert not [one for one in asked if "vendor" in one or "drawings" in one or "/parts/diagram" in one]


HOSTILE = {
    "script.svg": '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="50" height="50"'
    ' onload="alert(10)"><script>alert(11)</script><image xlink:href="https://evil.example/a.png" width="9" height="9"/>'
    '<foreignObject width="50" height="50"><body xmlns="http://www.w3.org/1999/xhtml"><img src="https://evil.example/b.png"'
    ' onerror="alert(12)"/><iframe src="https://evil.example/c"/></body></foreignObject>'
    "<style>@import url(https://evil.example/d.css); * { background: url(https://evil.example/e.png) }</style></svg>",
    "page.png": "<!doctype html><script>alert(13)</script>",
    "page.pdf": "<!doctype html><script>alert(14)</script>",
    "page.svg": "<!doctype html><script>alert(15)</script>",
}
FORMULAS = (
    r"\href{javascript:alert(20)}{x}", r"\url{https://evil.example/f}", r"\includegraphics{https://evil.example/g.png}",
    r"\htmlStyle{background:url(https://evil.example/h.png)}{x}", r"\htmlData{a=b}{x}", r"\htmlId{toast}{x}",
    r"\def\a{\a\a}\a", r"\def\a{xxxxxxxxxx}\def\b{\a\a\a\a\a\a\a\a\a\a}\def\c{\b\b\b\b\b\b\b\b\b\b}\c\c\c\c",
    r"\rule{99999em}{99999em}", "{" * 5_000, r"\text{<img src=x onerror=alert(21)>}", r"\color{url(https://evil.example/i)}{x}",
)  # fmt: skip
DIAGRAMS = (
    'flowchart LR\n  A["<img src=https://evil.example/j.png onerror=alert(30)>"] --> B["<script>alert(31)</script>"]',
    'flowchart LR\n  A --> B\n  click A href "javascript:alert(32)"\n  click B href "https://evil.example/k"',
    "flowchart LR\n  A --> B\n  click A call alert(33)",
    ('%%{init: {"securityLevel": "loose", "htmlLabels": true, "flowchart": {"htmlLabels": true}, "themeCSS":'
    ' "* { background: url(https://evil.example/l.png) }"}}%%\nflowchart LR\n  A["<iframe srcdoc=\'<script>alert(34)</script>\'>"]'),
    "flowchart LR\n  A --> B\n  style A fill:url(https://evil.example/m.png)\n  classDef x background:url(https://evil.example/n.png)",
    'flowchart LR\n  A@{ img: "https://evil.example/o.png", label: "x", h: 60 }',
    "sequenceDiagram\n  participant A\n  link A: x @ javascript:alert(35)\n  A->>A: <b onclick=alert(36)>y</b>",
    "x" * 60_000,
)  # fmt: skip


def test_nothing_runs_and_nothing_is_fetched_for_hostile_files_formulas_and_diagrams(reading, open_page):
    stage, address = reading
    root = stage.settings.vault
    for name, text in HOSTILE.items():
        (root / name).write_text(text)
    fences = "".join(f"```mermaid\n{one}\n```\n\n" for one in DIAGRAMS)
    formulas = "".join(f"$$\n{one}\n$$\n\n" for one in FORMULAS)
    pictures = "".join(f"![[{name}]]\n\n![x]({name})\n\n" for name in HOSTILE)
    (root / "Hostile.md").write_text(f"# Hostile\n\n{pictures}{formulas}{fences}")
    index_once(stage.resources, lambda *_: None)
    # A policy writes what it forbids into the console; a request that is sent, and a script that runs, fail the test.
    open_page.expected += [
        "Content Security Policy",
        "ERR_BLOCKED_BY_CSP",
        "net::ERR_",
        "sandboxed",
        "https://evil.example/",
    ]
    page = open_page(stage, address)
    fetched, tried = [], []
    page.on("response", lambda answer: fetched.append(answer.url))
    page.on("request", lambda sent: tried.append(sent) if "evil.example" in sent.url else None)
    page.goto("/notes/Hostile.md")
    page.locator(".math .katex").first.wait_for()
    for diagram in page.locator(".diagram").all():
        diagram.scroll_into_view_if_needed()
        page.wait_for_function(
            "(place) => { const at = place.shadowRoot; return at.querySelector('iframe').offsetHeight > 1"
            " || !at.querySelector('p').hidden; }",
            arg=diagram.element_handle(),
        )
    for frame in page.frames[1:]:
        assert (
            frame.locator("script[src], img, iframe, object, embed, [onclick], [onerror], a[href]").count()
            == 0
        )
    assert (
        page.evaluate(
            "[...document.querySelectorAll('.math')].some((one) => one.shadowRoot?.querySelector('a, img'))"
        )
        is False
    )
    assert [one for one in fetched if not one.startswith(address)] == []
    for name in HOSTILE:  # opened by itself
        if name.endswith(".svg"):
            page.goto(f"/files/{name}")
            page.wait_for_timeout(100)
            assert page.evaluate("origin") == "null"
    assert [one for one in fetched if not one.startswith(address)] == []
    # The browser names a request to its tools also where the policy stopped it.
    assert {one.failure for one in tried} <= {"csp", "net::ERR_BLOCKED_BY_CSP"}


def test_the_frame_of_diagrams_reaches_neither_the_page_nor_the_service(reading, open_page):
    stage, address = reading
    (stage.settings.vault / "Drawn.md").write_text(DRAWN)
    index_once(stage.resources, lambda *_: None)
    open_page.expected += ["Content Security Policy", "Failed to fetch", "ERR_", "Blocked a frame"]
    page = open_page(stage, address)
    page.goto("/notes/Drawn.md")
    page.wait_for_function(
        "() => document.querySelector('.diagram').shadowRoot?.querySelector('iframe').offsetHeight > 30"
    )
    frame = page.frames[1]
    assert frame.evaluate("origin") == "null"
    playwright = pytest.importorskip("playwright.sync_api")
    for what in (
        "parent.document.title",
        "document.cookie",
        "localStorage.length",
        f"fetch('{address}/search?q=a')",
    ):
        with pytest.raises(playwright.Error, match=r"SecurityError|Failed to fetch"):
            frame.evaluate(f"async () => await {what}")


@pytest.mark.parametrize("by", ["keyboard", "touch"])
def test_every_action_is_done_by_keyboard_and_by_touch(reading, open_page, programs, by):
    stage, address = reading
    page = open_page(stage, address, **LOOKS["phone" if by == "touch" else "light"])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    page.goto("/notes/Other.md#L3")
    page.wait_for_function("CSS.highlights.has('passage')")

    def act(key, name):
        if by == "keyboard":
            page.keyboard.press(key)
        else:
            page.locator(".bar").get_by_role("button", name=name).or_(
                page.locator(".bar").get_by_role("link", name=name)
            ).tap()

    for key, name, copied in (
        ("l", "Copy link", f"{address}/notes/Other.md#L3"),
        ("p", "Copy path", "Other.md"),
        ("c", "Copy citation", "[Other](Other.md#L3)"),
    ):
        act(key, name)
        page.locator("#toast.shown", has_text=copied).wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == copied
    act("e", "Open with code")
    page.locator("#toast.shown", has_text="Opened with code").wait_for()
    act("f", "Show in folder")
    page.locator("#toast.shown", has_text="The folder is open").wait_for()
    assert programs() == [
        f"code --goto {stage.settings.vault}/Other.md:3",
        f"{'open -R' if sys.platform == 'darwin' else 'xdg-open'} {stage.settings.vault.as_uri()}",
    ]
    act("r", "Raw text")
    page.wait_for_url("**/notes/Other.md?raw=1#L3")


def test_a_note_that_mentions_this_one_is_named_beside_it(reading, open_page):
    stage, address = reading
    (stage.settings.vault / "Diary.md").write_text(
        "# Diary\n\nWell. I say everything <b>here</b>, and more. Then rest.\n"
    )
    index_once(stage.resources, lambda *_: None)
    page = open_page(stage, address)
    page.goto("/notes/Everything.md")
    part = page.get_by_role("region", name="Mentions")
    part.get_by_role("link", name="Diary").wait_for()
    assert part.locator("q").inner_text() == "I say everything here, and more."
    assert part.locator("mark").inner_text() == "everything"


def hear(page):
    """Wait for a message: the first says how all stood, and the page is drawn again when a later one differs."""
    page.evaluate(
        "new Promise((heard) => { const other = new EventSource('/ops/events');"
        " other.onmessage = () => { other.close(); heard(); }; })"
    )


def test_the_open_page_of_a_renamed_note_leads_to_it_and_goes_on_once_it_is_back(reading, open_page):
    stage, address = reading
    page = open_page(stage, address)
    page.goto("/notes/Other.md")
    hear(page)
    note, elsewhere = stage.settings.vault / "Other.md", stage.settings.vault / "Else <b>where.md"
    note.rename(elsewhere)
    index_once(stage.resources, lambda *_: None)
    gone = page.get_by_role("alert").filter(has_text="Other.md is unknown: it was renamed to")
    assert gone.get_by_role("link").get_attribute("href") == "/notes/Else%20%3Cb%3Ewhere.md"
    assert page.locator("#text").is_visible()  # who was reading it can go on
    assert not page.get_by_text("indexed", exact=True).is_visible()
    elsewhere.rename(note)
    index_once(stage.resources, lambda *_: None)
    gone.wait_for(state="detached")
    page.get_by_text("indexed", exact=True).wait_for()
    open_page.expected.append("404")


def test_a_page_that_is_open_shows_the_note_as_it_is_saved_and_keeps_the_mark(reading, open_page):
    stage, address = reading
    page = open_page(stage, address)
    page.goto("/notes/Other.md#L3")
    page.wait_for_function("CSS.highlights.has('passage')")
    hear(page)
    (stage.settings.vault / "Other.md").write_text("# Other\n\nWritten just now. [[Everything]] [[Long]]\n")
    index_once(stage.resources, lambda *_: None)
    page.get_by_text("Written just now.").wait_for()
    page.wait_for_function("[...CSS.highlights.get('passage')][0].toString().includes('just now')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_passage_is_marked_by_a_tint_that_lets_the_page_through(reading, open_page, scheme):
    page = open_page(*reading, color_scheme=scheme)
    page.goto(f"/notes/Long.md#L{LINE + 2}")
    page.wait_for_function("CSS.highlights.has('passage')")
    colour = page.evaluate(
        "getComputedStyle(document.documentElement, '::highlight(passage)').backgroundColor"
    )
    assert 0.2 < float(colour.rstrip(")").rpartition("/")[2]) <= 0.5


@pytest.mark.parametrize("look", SHOWN)
@pytest.mark.usefixtures("programs")
def test_the_page_is_accessible_and_fits(reading, open_page, axe, screenshots, look):
    stage, address = reading
    (stage.settings.vault / "Drawn.md").write_text(DRAWN)
    index_once(stage.resources, lambda *_: None)
    page = open_page(stage, address, **LOOKS[look])
    for name, address in {
        "note": "/notes/Everything.md",
        "passage": f"/notes/Long.md#L{LINE + 2}",
        "raw": "/notes/Everything.md?raw=1",
        "drawn": "/notes/Drawn.md",
    }.items():
        page.goto(address)
        page.screenshot(path=screenshots / f"{name}-{look}.png", full_page=name in ("note", "drawn"))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
        found = axe.run(page, options={"resultTypes": ["violations"]} | RULES[look]).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], name


def test_on_a_phone_the_panel_is_below_the_text(reading, open_page):
    page = open_page(*reading, **LOOKS["phone"])
    page.goto("/notes/Everything.md")
    text, beside = page.locator("article").bounding_box(), page.locator("aside").bounding_box()
    assert beside["y"] >= text["y"] + text["height"]
    assert beside["width"] > 300


def test_without_javascript_the_note_is_read_and_a_line_is_reached(reading, open_page):
    page = open_page(*reading, java_script_enabled=False)
    page.goto(f"/notes/Long.md#L{LINE + 2}")
    assert page.locator(f"#L{LINE + 2}").inner_text() == "Here it is."
    place = page.locator(f"#L{LINE + 2}").bounding_box()
    assert 0 <= place["y"] < 400
