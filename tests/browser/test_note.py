"""A note's page in a browser: the passage is marked and seen, the keys work, and nothing of a note runs."""

from __future__ import annotations

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
    assert (
        page.locator("article :is(script, img, svg, iframe, style, object, embed, form, input)").count() == 0
    )
    addresses = page.locator("article a").evaluate_all("(links) => links.map((link) => link.protocol)")
    assert set(addresses) <= {"http:", "https:", "obsidian:"}
    assert "<script>alert(1)</script>" in page.locator("article").inner_text()


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


@pytest.mark.parametrize("look", SHOWN)
def test_the_page_is_accessible_and_fits(reading, open_page, axe, screenshots, look):
    page = open_page(*reading, **LOOKS[look])
    for name, address in {
        "note": "/notes/Everything.md",
        "passage": f"/notes/Long.md#L{LINE + 2}",
        "raw": "/notes/Everything.md?raw=1",
    }.items():
        page.goto(address)
        page.screenshot(path=screenshots / f"{name}-{look}.png", full_page=name == "note")
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
