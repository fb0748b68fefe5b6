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

# Keeps what draws the map, which says where on it a note is.
KEEPER = """
let made;
Object.defineProperty(window, "Sigma", {
  get: () => made,
  set: (Sigma) => (made = class extends Sigma { constructor(...given) { super(...given); window.sigma = this; } }),
});
"""
# The boxes in the window of a note and its neighbours.
BOXES = """(title) => {
  const graph = sigma.getGraph();
  const id = graph.findNode((_, { label }) => label === title);
  const { left, top } = sigma.getContainer().getBoundingClientRect();
  return [id, ...graph.neighbors(id)].map((one) => {
    const place = sigma.getNodeDisplayData(one);
    const { x, y } = sigma.framedGraphToViewport(place);
    const radius = sigma.scaleSize(place.size);
    return [left + x - radius, top + y - radius, left + x + radius, top + y + radius];
  });
}"""

# The title of the note that is furthest to the right beside the panel, and where it is in the window.
RIGHTMOST = """(edge) => {
  const graph = sigma.getGraph();
  const { left, top } = sigma.getContainer().getBoundingClientRect();
  const places = graph.mapNodes((id, { label }) => {
    const { x, y } = sigma.framedGraphToViewport(sigma.getNodeDisplayData(id));
    return [label, [left + x, top + y]];
  });
  return places.filter(([_, at]) => at[0] < edge).sort((one, other) => other[1][0] - one[1][0])[0];
}"""
# The titles of the notes whose neighbours are furthest from them; what is no note's name but theirs finds them.
FAR = """() => {
  const graph = sigma.getGraph();
  const apart = (one, other) => {
    const [a, b] = [one, other].map((id) => sigma.getNodeDisplayData(id));
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  const reach = (id) => Math.max(...graph.mapNeighbors(id, (other) => apart(id, other)), 0);
  const ids = graph.filterNodes((_, { label }) => / \\d{3}$/.test(label)).sort((a, b) => reach(b) - reach(a));
  return ids.slice(0, 5).map((id) => graph.getNodeAttribute(id, "label"));
}"""


@pytest.fixture
def open_map(large, open_page):
    def opened(address="/graph", **look):
        page = open_page(*large, **look)
        page.add_init_script(RECORDER + KEEPER)
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


@pytest.mark.parametrize("ratio", [1, 1.5, 2])
def test_names_are_drawn_where_they_belong_at_any_scale_of_the_screen(open_map, ratio):
    page = open_map(viewport={"width": 800, "height": 600}, device_scale_factor=ratio)
    assert page.locator(".sigma-names").bounding_box() == page.locator("#map").bounding_box()


def out_of_sight(page, title):
    """Return the boxes of the note and its neighbours that are beneath something or not wholly on the map."""
    x, y, width, height = page.locator("#map").bounding_box().values()
    boxes = page.evaluate(BOXES, title)
    assert len(boxes) > 1
    return [
        box
        for box in boxes
        if any(meet(box, other) for other in lying_upon(page))
        or not (x <= box[0] and y <= box[1] and box[2] <= x + width and box[3] <= y + height)
    ]


@pytest.mark.parametrize(("width", "height"), [(1200, 800), (390, 844)])
def test_a_note_that_is_found_and_its_neighbours_are_beside_the_panel(open_map, width, height):
    page = open_map(viewport={"width": width, "height": height})
    for title in page.evaluate(FAR):
        page.locator("#find").fill(title)
        page.locator("#find").press("Enter")
        page.wait_for_timeout(800)  # it moves
        assert page.locator("#panel h1").inner_text() == title
        assert out_of_sight(page, title) == [], title


def test_a_click_on_a_note_brings_its_neighbours_out_from_under_the_panel(open_map):
    page = open_map(viewport={"width": 1200, "height": 800})
    title, (x, y) = page.evaluate(RIGHTMOST, 860)
    page.mouse.click(x, y)
    page.wait_for_timeout(1200)  # it waits for a second click, then moves
    assert page.locator("#panel h1").inner_text() == title
    assert out_of_sight(page, title) == []


def test_a_double_click_on_a_note_opens_it_although_it_is_to_move(open_map):
    page = open_map(viewport={"width": 1200, "height": 800})
    title, (x, y) = page.evaluate(RIGHTMOST, 860)
    page.mouse.dblclick(x, y)
    page.wait_for_url("**/notes/**")
    assert page.locator("h1").inner_text() == title


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


def test_the_map_counts_the_notes_that_it_leaves_out(open_map):
    page = open_map()
    asked = (
        "(address) => fetch(address, { headers: { Accept: 'application/json' } }).then((one) => one.json())"
    )
    domains = page.evaluate(asked, "/health")["domains"]
    listed = sum(one["notes"] for one in domains.values())
    absent = listed - len(page.evaluate(asked, "/graph?limit=10000")["nodes"])
    told = page.locator("#facts").inner_text().split(" · ")
    assert absent
    notes = "1 note" if absent == 1 else f"{absent} notes"
    others = "other notes of their domain" if len(domains) > 1 else "other notes"
    assert [one for one in told if "left out" in one] == [f"{notes} without links to {others} left out"]


@pytest.mark.parametrize(
    ("address", "path"), [("No%20such.md", "No such.md"), ("100%", "100%"), ("a<b>.md", "a<b>.md")]
)
def test_a_note_that_is_not_on_the_map_is_named_until_another_is_chosen(open_map, address, path):
    page = open_map(f"/graph#{address}")
    page.get_by_text(f"{path} is not on this map").wait_for()
    page.locator("#find").fill("soil")
    page.locator("#find").press("Enter")
    page.locator("#panel h1").wait_for()
    assert page.locator("#absent").count() == 0


@pytest.mark.parametrize("look", SHOWN)
def test_the_map_is_accessible(open_map, axe, screenshots, look):
    page = open_map(**LOOKS[look])
    page.screenshot(path=screenshots / f"map-{look}.png")
    found = axe.run(page, options={"resultTypes": ["violations"]} | RULES[look]).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []


def test_a_chosen_note_says_the_types_of_its_links_and_each_type_has_a_map(open_map):
    page = open_map("/graph#Soils/Soil%201.md")
    links = page.locator("#panel a.type")
    links.wait_for()
    assert links.all_inner_texts() == ["feeds"]
    assert links.get_attribute("href") == "?type=feeds#Soils/Soil%201.md"
    page.wait_for_timeout(1_000)  # it moves
    assert "feeds" in {one["text"] for one in written(page)}
    page.keyboard.press("Escape")
    page.wait_for_timeout(500)
    assert "feeds" not in {one["text"] for one in written(page)}
    page.goto("/graph?type=feeds#Soils/Soil%2011.md")
    page.locator("#facts", has_text="2 notes · 1 link").wait_for()
    links.wait_for()
    assert page.locator("#panel h2.in").inner_text() == "Linked from 1 note"
    assert page.locator("#panel h2.out").inner_text() == "Links to no notes"
