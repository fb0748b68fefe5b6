"""The dashboard as a user sees and uses it: every page, every action, light and dark, wide and on a phone."""

from __future__ import annotations

import json
from contextlib import closing
from urllib.parse import urlencode, urlsplit

import pytest

from pipelines.state.jobs import History, Result
from pipelines.state.state import HELD
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from tests.browser.serving import serving, working
from tests.browser.stage import HOSTILE, HOSTILE_FILE, HOSTILE_PIPE, Stage
from tests.sweeps import ALL
from workers.heartbeat import process_name
from workers.resources import Resources
from workers.tasks import make_tasks

PAGES = {
    "search": "/?q=soil+compost",
    "filtered": "/?q=soil&folder=Soils&domain=notes",
    "overview": "/ops",
    "day": "/ops?hours=24",
    "queue": "/ops/queue",
    "jobs": "/ops/jobs",
    "failed": "/ops/jobs?state=failed&error=cannot",
    "sorted": "/ops/jobs?sort=ran&background=1",
    "job": "/ops/jobs/98",
    "no-job": "/ops/jobs/999999",
    "parked": "/ops/parked",
    "notes": "/ops/notes",
    "note": "/ops/notes?q=Soils/Soil+1.md",
    "title": "/ops/notes?q=soil",
    "unknown": "/ops/notes?q=no-such-note.md",
    "review": "/ops/review",
    "review-filtered": "/ops/review?domain=notes&tag=area%2Fgarden&sure=90",
    "rejected": "/ops/review?state=rejected",
    "walk": "/ops/walk?path=Soils/Soil+1.md",
    "communities": "/ops/communities",
    "text": "/notes/Soils/Soil%201.md",
    "browse": "/browse",
    "browse-folder": "/browse?folder=Soils",
    "browse-tag": "/browse?tag=soil&offset=20",
}
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 360, "height": 740}
LOOKS = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "phone": {"color_scheme": "light", "viewport": PHONE, "has_touch": True},
    "dark-phone": {"color_scheme": "dark", "viewport": PHONE, "has_touch": True},
}
# What a look can change of what was right in the first one: its colours, or what has room.
_COLOURS = ["color-contrast"]
_ROOM = ["scrollable-region-focusable", "label", "button-name", "link-name", "aria-hidden-focus"]
RULES = {
    "light": {},
    "dark": {"runOnly": _COLOURS},
    "phone": {"runOnly": _ROOM},
    "dark-phone": {"runOnly": [*_COLOURS, *_ROOM]},
}
# The last look has what two others have; it takes minutes to look at every page in each of the four.
SHOWN = [*LOOKS] if ALL else ["light", "dark-phone"]


@pytest.mark.parametrize("look", SHOWN)
def test_every_page_is_complete_and_accessible(look, large, open_page, axe, screenshots):
    page = open_page(*large, **LOOKS[look])
    for name, address in PAGES.items():
        page.goto(address)
        page.screenshot(path=screenshots / f"{name}-{look}.png", full_page=name != "review")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
        found = axe.run(page, options={"resultTypes": ["violations"]} | RULES[look]).response["violations"]
        assert [
            (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
        ] == [], name
    # The page that says that a job is no more is a 404, which a browser writes into its console.
    open_page.expected.append("404 (Not Found)")


@pytest.mark.parametrize("address", ["/", "/ops", "/ops/review", "/notes/Soils/Soil%201.md"])
def test_each_script_of_a_page_runs_once(large, open_page, address):
    page, loaded = open_page(*large), []
    page.on("request", lambda sent: loaded.append(urlsplit(sent.url).path))
    page.goto(address)
    page.wait_for_load_state("load")
    scripts = [path for path in loaded if path.endswith((".js", "/ops/events"))]
    assert scripts
    assert sorted(set(scripts)) == sorted(scripts)


def test_what_notes_say_is_text_wherever_it_is_shown(large, open_page):
    page = open_page(*large)
    page.goto("/ops/notes?" + urlencode({"q": HOSTILE_FILE}))
    assert page.locator(".verdict strong").inner_text() == HOSTILE
    page.goto("/ops/jobs?state=failed")
    assert HOSTILE in page.locator("#jobs .error").first.inner_text()
    for address in PAGES.values():
        page.goto(address)
        assert page.locator("main img, main script, main td b, main li i").count() == 0
    open_page.expected.append("404 (Not Found)")


def test_everything_can_be_read_without_javascript(large, open_page):
    page = open_page(*large, java_script_enabled=False)
    page.goto("/ops")
    assert "You can read everything without JavaScript" in page.locator("noscript").inner_text()
    places = page.get_by_role("navigation", name="Everindex")
    for name in (
        "Queue",
        "Jobs",
        "Parked",
        "Is my note in?",
        "Review",
        "Browse",
        "Ask",
        "Map",
        "Search",
        "Overview",
    ):
        if not places.get_by_role("link", name=name).is_visible():
            places.get_by_text("Operations").click()
        places.get_by_role("link", name=name).click()
        page.locator(f"[aria-current=page]:has-text('{name}')").wait_for(state="attached")
        assert page.locator("main").inner_text() or name in ("Search", "Map")
    page.goto("/ops/jobs")
    page.locator("select[name=state]").select_option("failed")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**state=failed**")
    assert set(page.locator("#jobs .state").all_inner_texts()) == {"failed"}


def test_jobs_are_paged_and_a_job_has_its_log(large, open_page):
    page = open_page(*large)
    page.goto("/ops/jobs?task=drain")
    first = page.locator("#jobs tbody tr th a").first.get_attribute("href")
    page.get_by_role("link", name="Older").click()
    page.wait_for_url("**before=**")
    assert page.locator("#jobs tbody tr th a").first.get_attribute("href") != first
    page.locator("#jobs tbody tr th a").first.click()
    assert page.locator(".log").inner_text().startswith("job began")
    assert "ended <b>ms=12</b>" in page.locator(".log").inner_text()


def test_times_are_those_of_the_browsers_clock_and_a_click_on_a_heading_sorts(large, open_page):
    page = open_page(*large, timezone_id="Asia/Kathmandu")
    page.goto("/ops/jobs?state=failed")
    began = page.locator("#jobs tbody time").first
    there = page.evaluate(
        "(at) => new Date(at).toLocaleTimeString('en-GB', { timeZone: 'Asia/Kathmandu' })",
        began.get_attribute("datetime"),
    )
    assert began.inner_text().endswith(there)
    assert began.get_attribute("title").endswith(" UTC")
    page.get_by_role("link", name="Ran", exact=True).click()
    page.wait_for_url("**sort=ran**")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Ran")
    page.goto("/ops?hours=24")
    page.get_by_text("As a table", exact=True).first.click()
    assert page.locator(".chart tbody time").first.is_visible()
    assert page.locator(".chart title[data-at]").first.text_content().count(":") > 1


def test_why_a_hit_is_there_and_where_it_leads_is_one_click_away(large, open_page):
    page = open_page(*large)
    page.goto("/?q=soil")
    page.get_by_text("Why it is here").first.click()
    assert "fused" in page.locator(".layers").first.inner_text()
    page.get_by_role("link", name="Follow links").first.click()
    page.get_by_role("heading", name="Kept").wait_for()
    page.goto("/")
    page.get_by_text("Add a filter", exact=True).click()
    page.get_by_label("Folder").fill("Soils")
    page.get_by_role("searchbox").fill("soil")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=soil&folder=Soils**")
    page.locator("h2 + .where").first.wait_for()  # until then, it lists the notes of the folder
    found = page.locator("h2 + .where").all_inner_texts()
    assert found
    assert all(where.startswith("Soils/") for where in found)


def test_a_filter_that_cannot_be_used_is_reported_and_nothing_breaks(large, open_page):
    page = open_page(*large)
    page.goto("/?q=soil&tag=two+words")
    assert "tag cannot be" in page.get_by_role("alert").inner_text()
    open_page.expected.append("422")


def gone(page, selector):
    """Wait until there is nothing of that kind. (Our policy lets no expression be evaluated in the page.)"""
    page.locator(selector).wait_for(state="detached")


def test_parked_notes_are_retried_and_forgotten_one_many_or_all(small, open_page):
    stage, address = small
    page = open_page(stage, address)
    page.goto("/ops/parked")
    with working(stage.settings):
        (stage.resources.root / "Mail archive.md").write_text("small now")
        page.get_by_role("button", name="Retry Mail archive.md").click()
        gone(page, "input[value='Mail archive.md']")
        page.get_by_role("button", name="Forget Export of everything.md").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_label("Choose pipe.md").check()
        page.get_by_label("Choose all that are too-large").check()
        assert page.locator("[data-count]").inner_text() == "3"
        page.get_by_role("button", name="Forget the chosen").click()
        page.get_by_role("dialog").get_by_role("button", name="Forget the chosen").click()
        page.locator("input[name=chosen]").nth(1).wait_for(state="detached")
        assert "3 are forgotten" in page.locator("#parked").inner_text()
        with page.expect_request("**/ops/parked/retry") as sent:
            page.get_by_role("button", name=f"Retry {HOSTILE_PIPE}", exact=True).click()
        assert sent.value.post_data_json == {"paths": [HOSTILE_PIPE]}
        page.get_by_role("button", name="Retry all that are not-a-file").click()
        page.get_by_text("They are tried again").wait_for()
    page.goto("/ops/notes?q=Mail+archive.md")
    assert page.locator(".verdict .state").inner_text() == "indexed"


def test_held_deletions_are_confirmed(small, open_page):
    stage, address = small
    page = open_page(stage, address)
    page.goto("/ops/parked")
    with working(stage.settings):
        page.get_by_role("button", name="Confirm the deletions").click()
        assert "The files are gone already" in page.get_by_role("dialog").inner_text()
        page.get_by_role("dialog").get_by_role("button", name="Confirm the deletions").click()
        page.get_by_text("They are removed from the index").wait_for()
        gone(page, "#held button")
    assert stage.resources.state().get(HELD, "fitness") is None


def test_a_domain_is_paused_and_resumed_and_the_queue_emptied(small, open_page):
    stage, address = small
    queue = stage.resources.queue()
    tasks = make_tasks(queue, stage.resources)
    tasks.drain("notes")
    tasks.retry_parked(None)
    page = open_page(stage, address)
    page.goto("/ops/queue")
    assert "Retry parked notes" in page.locator("#lengths").inner_text()
    assert page.locator("[data-badge=Queue]").text_content() == "2"
    page.get_by_role("button", name="Pause notes").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume notes").click()
    page.get_by_role("button", name="Pause notes").wait_for()
    page.get_by_role("button", name="Empty").click()
    page.keyboard.press("Escape")
    assert queue.pending_count() == 2
    page.get_by_role("button", name="Empty").click()
    page.get_by_role("dialog").get_by_role("button", name="Empty").click()
    page.get_by_text("Nothing waits.").wait_for()
    assert queue.pending_count() == 0


def test_changes_are_shown_without_a_reload_and_never_replace_what_the_user_is_editing(small, open_page):
    stage, address = small
    page = open_page(stage, address)
    page.goto("/ops/jobs")
    page.evaluate("window.same = true")
    page.get_by_text("live", exact=True).wait_for()
    page.get_by_label("Path has").fill("half a wo")
    with closing(History(stage.state)) as history:
        number = history.start("task-new", "drain", "notes", worker=process_name())
        page.locator(f"a[href='/ops/jobs/{number}']").wait_for()
        history.finish(number, Result("failed", 12.0, error="the disk said <no>"))
    page.get_by_text("the disk said <no>").wait_for()
    assert page.get_by_label("Path has").input_value() == "half a wo"
    assert page.evaluate("window.same")


def finish_a_job(stage, task):
    with closing(History(stage.state)) as history:
        number = history.start(task, "drain", "notes", worker=process_name())
        history.finish(number, Result("done", 1.0))


def test_a_selection_stays_when_the_page_is_redrawn(small, open_page):
    stage, address = small
    page = open_page(stage, address)
    page.goto("/ops/parked")
    page.get_by_text("live", exact=True).wait_for()
    page.get_by_label("Choose pipe.md").check()
    page.get_by_label("Choose pipe.md").focus()
    page.locator("#parked").evaluate("part => part.dataset.old = 'yes'")
    finish_a_job(stage, "task-new")
    gone(page, "#parked[data-old]")
    assert page.get_by_label("Choose pipe.md").is_checked()
    assert page.evaluate("document.activeElement.value") == "pipe.md"


def test_a_button_is_not_redrawn_while_it_is_pressed(small, open_page):
    stage, address = small
    page = open_page(stage, address)
    page.goto("/ops/parked")
    page.get_by_text("live", exact=True).wait_for()
    page.locator("#parked").evaluate("part => part.dataset.old = 'yes'")
    page.get_by_role("button", name="Retry all that are not-a-file").hover()
    page.mouse.down()
    for task in ("first", "second"):  # the page asks for the second after it has shown the first
        with page.expect_response("**/ops/parked"):
            finish_a_job(stage, task)
    page.mouse.up()
    page.get_by_text("They are tried again").wait_for()
    gone(page, "#parked[data-old]")


def test_an_action_that_fails_says_why(small, open_page):
    page = open_page(*small)
    refusal = json.dumps(
        {"title": "Service Unavailable", "detail": "the queue cannot be reached <b>(away)</b>"}
    )
    page.route("**/ops/queue/resume*", lambda route: route.abort())
    page.route(
        "**/ops/queue/pause*",
        lambda route: route.fulfill(status=503, body=refusal, content_type="application/problem+json"),
    )
    page.goto("/ops/queue")
    page.get_by_role("button", name="Pause notes").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    page.get_by_text("the queue cannot be reached <b>(away)</b>").wait_for()
    assert page.get_by_role("button", name="Pause notes").is_enabled()
    open_page.expected.append("503")


def test_the_four_places_fit_in_one_row_and_the_current_one_shifts_none(large, open_page):
    page = open_page(*large, viewport=PHONE, has_touch=True)
    lefts = []
    for address in ("/", "/chat", "/browse", "/graph", "/ops/review"):
        page.goto(address)
        page.locator("[data-badge=Review]:not([hidden])").wait_for()
        boxes = [one.bounding_box() for one in page.locator(".site > ul > li").all()]
        assert len({box["y"] for box in boxes}) == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        lefts.append([box["x"] for box in boxes])
    assert all(one == lefts[0] for one in lefts)
    page.locator(".menu summary").tap()
    page.get_by_role("link", name="Jobs").tap()
    page.wait_for_url("**/ops/jobs")


def test_the_menu_of_operations_works_by_keyboard_and_closes(large, open_page):
    page = open_page(*large)
    page.goto("/graph")
    summary, entry = page.locator(".menu summary"), page.get_by_role("link", name="Is my note in?")
    page.locator("[data-badge=Operations]:not([hidden])").wait_for()  # of this vault notes are parked
    summary.focus()
    page.keyboard.press("Enter")
    entry.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    entry.wait_for(state="hidden")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    summary.click()
    entry.wait_for()
    page.locator("#facts").click()
    entry.wait_for(state="hidden")


def test_where_nothing_is_wrong_the_places_say_nothing_of_how_it_works(tmp_path, tiny_model, open_page):
    root = tmp_path / "vault"
    root.mkdir()
    (root / "Soil.md").write_text("# Soil\n\nCompost feeds it. [[Garden]]\n")
    (root / "Garden.md").write_text("# Garden\n\nIt has soil.\n")
    settings = Settings(vault=root, state=tmp_path / "state", embedding_model=str(tiny_model))
    resources = Resources(settings)
    index_once(resources, lambda *_: None)
    with serving(settings) as address:
        page = open_page(Stage(settings, resources), address)
        for place in (
            "/",
            "/?q=soil",
            "/?q=zebra",
            "/browse",
            "/browse?folder=None",
            "/graph",
            "/ops/review",
        ):
            page.goto(place)
            said = page.locator("body").inner_text().lower()
            assert not [word for word in ("queue", "worker", "embed", "job", "daemon") if word in said], place
