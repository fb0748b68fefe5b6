"""The map in a browser: its names are right, and each can be read."""

from __future__ import annotations

import pytest

from tests.browser.test_ops import LOOKS, RULES, SHOWN

# Keeps what is written upon each canvas since it was last cleared, as boxes in the window.
RECORDER = """
window.written = new Map();
const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  window.written.set(this, []);
  return clearRect.apply(this, box);
};
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const { width, actualBoundingBoxAscent: up, actualBoundingBoxDescent: down } = this.measureText(text);
  const { left, top } = this.canvas.getBoundingClientRect();
  const from = left + x - (this.textAlign === "center" ? width / 2 : 0);
  if (!window.written.has(this)) window.written.set(this, []);
  window.written.get(this).push({ text, box: [from, top + y - up, from + width, top + y + down] });
  return fillText.call(this, text, x, y);
};
"""


@pytest.fixture
def open_map(large, open_page):
    def opened(address="/graph", **look):
        page = open_page(*large, **look)
        page.add_init_script(RECORDER)
        page.goto(address)
        if page.evaluate("!document.createElement('canvas').getContext('webgl2')"):
            pytest.skip("the map is not drawn: this browser has no WebGL")
        page.locator("#zoom").wait_for()
        while not written(page):  # our policy lets no expression be waited for
            page.wait_for_timeout(50)
        return page

    return opened


def written(page):
    return page.evaluate("[...written.values()].flat()")


def meet(one, other):
    return one[0] < other[2] and one[2] > other[0] and one[1] < other[3] and one[3] > other[1]


def lying_upon(page):
    places = [page.locator(f"#{name}").bounding_box() for name in ("legend", "zoom", "panel")]
    return [[p["x"], p["y"], p["x"] + p["width"], p["y"] + p["height"]] for p in places if p]


@pytest.mark.parametrize("look", ["light", "phone"])
@pytest.mark.parametrize("closer", [0, 2])
def test_no_name_covers_another_or_leaves_the_window(open_map, look, closer):
    page = open_map(**LOOKS[look])
    for _ in range(closer):
        page.get_by_role("button", name="Zoom in").click()
        page.wait_for_timeout(400)  # it moves
    found = written(page)
    width, height = (LOOKS[look]["viewport"][side] for side in ("width", "height"))
    assert found
    for at, one in enumerate(found):
        left, top, right, bottom = one["box"]
        assert left >= 0
        assert top >= 0
        assert right <= width
        assert bottom <= height
        assert [other["text"] for other in found[at + 1 :] if meet(one["box"], other["box"])] == [], one
        assert not any(meet(one["box"], box) for box in lying_upon(page)), one


def test_communities_go_by_their_best_note_and_say_what_they_are_about(open_map):
    page = open_map()
    drawn = page.evaluate(
        "fetch('/graph', { headers: { Accept: 'application/json' } }).then((one) => one.json())"
    )
    best = {}
    for note in sorted(drawn["nodes"], key=lambda note: note["pagerank"] or 0):
        best[note["domain"], note["community"]] = note["title"]
    rows = page.locator("#legend .label").all()
    titles = [row.evaluate("(label) => label.firstChild.data") for row in rows]
    assert titles
    assert set(titles) <= set(best.values())
    assert "notes" in rows[0].locator("small").inner_text()
    assert set(titles) & {one["text"] for one in written(page)}


@pytest.mark.parametrize("look", SHOWN)
def test_the_map_is_accessible(open_map, axe, screenshots, look):
    page = open_map(**LOOKS[look])
    page.screenshot(path=screenshots / f"map-{look}.png")
    found = axe.run(page, options={"resultTypes": ["violations"]} | RULES[look]).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
