"""Proposals are decided and taken back on the review page, by keyboard and by mouse."""

from __future__ import annotations

from contextlib import closing

import pytest

from pipelines.model import Suggestion, now_iso
from pipelines.state.tags import Proposals
from tests.browser.serving import working
from tests.browser.stage import HOSTILE, HOSTILE_FILE

EVERY = ("waiting", "accepted", "applied", "rejected", "refused")


def states_of(stage):
    with closing(Proposals(stage.state)) as proposals:
        return {one.id: one.state for one in proposals.of_state(None, *EVERY)}


def keys_of(within):
    return [
        int(one) for one in within.locator(".proposal").evaluate_all("all => all.map(one => one.dataset.key)")
    ]


def gone(page, *keys):
    for key in keys:
        page.locator(f"[data-key='{key}']").wait_for(state="detached")


@pytest.fixture
def review(small, open_page):
    """The stage, and its review page."""
    stage, address = small
    page = open_page(stage, address)
    page.goto("/ops/review")
    page.get_by_text("live", exact=True).wait_for()
    return stage, page


def focused(page):
    return int(page.locator(".proposal:focus").get_attribute("data-key"))


def test_proposals_are_decided_and_taken_back_by_keyboard_alone(review):
    stage, page = review
    keys = keys_of(page)
    badge = page.locator("[data-badge=Review]")
    before = int(badge.inner_text())
    for key in "jjka":
        page.keyboard.press(key)
    gone(page, keys[0])
    assert focused(page) == keys[1]
    page.keyboard.press("x")
    gone(page, keys[1])
    states = states_of(stage)
    assert (states[keys[0]], states[keys[1]], states[keys[2]]) == ("accepted", "rejected", "waiting")
    page.locator("[data-badge=Review]", has_text=str(before - 2)).wait_for()
    page.keyboard.press("u")
    page.locator(f".proposal:focus[data-key='{keys[1]}']").wait_for()
    with working(stage.settings):
        page.keyboard.press("u")
        page.locator(f".proposal:focus[data-key='{keys[0]}']").wait_for()
    assert {states_of(stage)[key] for key in keys} == {"waiting"}
    page.locator("[data-badge=Review]", has_text=str(before)).wait_for()


def test_after_a_decision_the_next_proposal_is_current_and_j_skips_none(review):
    _, page = review
    keys = keys_of(page)
    page.keyboard.press("j")
    page.keyboard.press("a")
    assert focused(page) == keys[1]
    page.keyboard.press("j")
    assert focused(page) == keys[1]
    gone(page, keys[0])
    page.keyboard.press("j")
    assert focused(page) == keys[2]
    page.locator(f"[data-key='{keys[2]}']").get_by_role("button", name="Accept").click()
    assert focused(page) == keys[3]
    gone(page, keys[2])
    page.keyboard.press("j")
    assert focused(page) == keys[3]
    page.keyboard.press("k")
    assert focused(page) == keys[1]
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert focused(page) == keys[4]


def test_all_tags_of_a_note_are_decided_at_once(review):
    stage, page = review
    note = page.locator("article").filter(has=page.get_by_role("button", name="Accept all")).first
    keys = keys_of(note)
    note.locator(".proposal").first.focus()
    page.keyboard.press("Shift+X")
    gone(page, *keys)
    assert {states_of(stage)[key] for key in keys} == {"rejected"}
    page.locator("#toast").get_by_role("button", name="Undo").click()
    page.locator(f".proposal:focus[data-key='{keys[0]}']").wait_for()
    page.locator(f"article[data-ids='{keys[0]},{keys[1]}']").get_by_role("button", name="Accept all").click()
    gone(page, *keys)
    assert {states_of(stage)[key] for key in keys} == {"accepted"}


def test_what_a_filter_shows_is_decided_at_once_and_nothing_else(review):
    stage, page = review
    before = states_of(stage)
    page.locator("select[name=tag]").select_option("season/winter")
    page.locator("select[name=sure]").select_option("50")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**tag=season**")
    keys = keys_of(page)
    assert set(page.locator(".proposal > .tag").all_inner_texts()) == {"season/winter"}
    page.get_by_role("button", name="Reject all season/winter").click()
    page.get_by_role("button", name="Cancel").click()
    assert states_of(stage) == before
    page.get_by_role("button", name="Reject all season/winter").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Reject all season/winter")
    assert confirm.get_attribute("class") == "danger"
    confirm.click()
    page.get_by_text("No proposal is like that.").wait_for()
    with closing(Proposals(stage.state)) as proposals:
        left = [one for one in proposals.of_state(None, "waiting") if one.tag == "season/winter"]
    page.locator("select[name=tag] option:checked", has_text=f"season/winter ({len(left)})").wait_for(
        state="attached"
    )
    assert states_of(stage) == before | dict.fromkeys(keys, "rejected")
    page.locator("#toast").get_by_role("button", name="Undo").click()
    page.locator(f"[data-key='{keys[0]}']").wait_for()
    assert states_of(stage) == before


def test_a_tag_that_is_in_its_note_already_is_taken_out_of_it_again(review):
    stage, page = review
    note = page.locator("article").filter(has_text="area/garden").first
    (key, *_), path = keys_of(note), note.locator(".where").inner_text().partition(" · ")[0]
    file = stage.resources.root / path
    before = file.read_bytes()
    with working(stage.settings):
        note.get_by_role("button", name="Accept area/garden").click()
        gone(page, key)
        assert page.request.post("/promote", data={}, headers={"Origin": page.url.partition("/ops")[0]}).ok
        assert b"area/garden" in file.read_bytes()
        page.locator("#toast").get_by_role("button", name="Undo").click()
        page.locator(f".proposal:focus[data-key='{key}']").wait_for()
    assert file.read_bytes() == before
    assert states_of(stage)[key] == "waiting"


def test_undoing_a_written_tag_says_first_which_others_leave_the_note_with_it(review):
    stage, page = review
    note = page.locator("article").filter(has=page.get_by_role("button", name="Accept all")).first
    keys = keys_of(note)
    with working(stage.settings):
        note.get_by_role("button", name="Accept all").click()
        gone(page, *keys)
        assert page.request.post("/promote", data={}, headers={"Origin": page.url.partition("/ops")[0]}).ok
        page.goto("/ops/review?state=applied")
        page.locator(f"[data-key='{keys[0]}']").get_by_role("button", name="Undo").click()
        asked = page.get_by_role("dialog")
        assert "season/winter, written into the note together with it, leaves it, too" in asked.inner_text()
        asked.get_by_role("button", name="Cancel").click()
        assert states_of(stage)[keys[0]] == "applied"
        page.locator(f"[data-key='{keys[0]}']").get_by_role("button", name="Undo").click()
        asked.get_by_role("button", name="Undo").click()
        page.get_by_text("Waits again").wait_for()
    assert {states_of(stage)[key] for key in keys} == {"waiting"}


def test_a_written_tag_says_when_it_was_written_and_undoing_it_names_no_other(review):
    stage, page = review
    key, other, *_ = keys_of(
        page.locator("article").filter(has=page.get_by_role("button", name="Accept all"))
    )
    with closing(Proposals(stage.state)) as proposals:
        proposals.settle([key], "applied", now_iso())
        proposals.settle([other], "applied", "2026-01-02T03:04:05.000+00:00")
    page.goto("/ops/review?state=applied")
    row = page.locator(f"[data-key='{key}']")
    assert "written now" in row.inner_text()
    written = page.locator(f"[data-key='{other}'] time").get_attribute("datetime")
    assert written == "2026-01-02T03:04:05.000+00:00"
    row.get_by_role("button", name="Undo").click()
    assert "It waits again." in page.get_by_role("dialog").inner_text()


def test_where_nothing_waits_a_button_has_tags_proposed_for_notes_without_any(review):
    stage, page = review
    with closing(Proposals(stage.state)) as proposals:
        waiting = [one.id for one in proposals.of_state(None, "waiting", "addition")]
        proposals.decide(waiting, "rejected", now_iso())
    page.reload()
    button = page.get_by_role("button", name="Propose tags for notes without tags")
    button.click()
    page.locator("#toast.bad", has_text="notes has no vocabulary").wait_for()
    (stage.resources.root / "_taxonomy.md").write_text("# Tags\n\n- soil: earth\n- bread: baked\n")
    button.click()
    page.locator("#toast:not(.bad)", has_text="Tags are being proposed for 1 note").wait_for()


def test_a_rejected_proposal_can_wait_again_from_its_own_list(review):
    stage, page = review
    page.goto("/ops/review?state=rejected")
    key = keys_of(page)[0]
    page.get_by_role("button", name="Undo").first.click()
    gone(page, key)
    assert states_of(stage)[key] == "waiting"


def test_a_note_is_shown_by_its_title_and_its_first_lines_as_text(review):
    stage, page = review
    with closing(Proposals(stage.state)) as proposals:
        hostile = [(Suggestion("<b>bold</b>", 0.6), "<i>group</i>")]
        proposals.add("notes", HOSTILE_FILE, hostile, proposer="local", note_hash="h", at=now_iso())
    note = page.locator("article").filter(has_text="Garden 0.md").first
    assert note.locator("h2").inner_text() == "Garden 0"
    opening = note.locator(".opening").inner_text()
    assert opening.startswith("The garden in 0: soil and compost, a line to the river. See Garden 10")
    assert "[[" not in opening
    hostile = page.locator("article").filter(has_text="<b>bold</b>")
    assert hostile.locator("h2").inner_text() == HOSTILE
    assert "soil bold" in hostile.locator(".opening").inner_text()
    assert hostile.locator(".opening b").count() == 0


def test_a_decision_that_is_not_taken_leaves_the_proposal_and_says_why(review, open_page):
    stage, page = review
    page.route("**/proposals/decide", lambda route: route.fulfill(status=503, body='{"detail": "no disk"}'))
    page.keyboard.press("j")
    key = focused(page)
    page.keyboard.press("a")
    page.get_by_text("no disk").wait_for()
    assert focused(page) == key
    assert page.locator("#toast button").count() == 0
    assert states_of(stage)[key] == "waiting"
    open_page.expected.append("503")


def test_the_message_of_a_decision_covers_no_proposal_with_the_focus(review):
    _, page = review
    page.set_viewport_size({"width": 1000, "height": 700})
    toast = page.locator("#toast")
    page.keyboard.press("j")
    key = focused(page)
    page.keyboard.press("a")
    gone(page, key)
    for _ in range(12):
        page.keyboard.press("j")
        box = page.locator(".proposal:focus").bounding_box()
        assert box["y"] + box["height"] <= toast.bounding_box()["y"]


def test_a_new_proposal_appears_without_a_reload(review):
    stage, page = review
    with closing(Proposals(stage.state)) as proposals:
        proposals.add(
            "notes",
            "Soils/Soil 1.md",
            [(Suggestion("new-tag", 0.6), "")],
            proposer="local",
            note_hash="h",
            at=now_iso(),
        )
    page.locator(".proposal", has_text="new-tag").wait_for()


def test_a_note_of_which_one_tag_was_decided_stays_in_its_place_though_the_rest_is_proposed_anew(review):
    stage, page = review
    titles = page.locator("article h2")
    before = titles.all_inner_texts()
    note = page.locator("article").nth(4)
    path = note.locator(".where").inner_text().partition(" · ")[0]
    key, other = keys_of(note)
    with closing(Proposals(stage.state)) as proposals:
        (again,) = proposals.get([other])
        proposals.drop([other])
        newer = [(Suggestion("newer-tag", again.confidence), again.group)]
        proposals.add(again.domain, path, newer, proposer="local", note_hash="h", at=now_iso())
    note.get_by_role("button", name="Accept area/garden").click()
    gone(page, key, other)
    assert "newer-tag" in page.locator("article").nth(4).inner_text()
    assert titles.all_inner_texts() == before
    with working(stage.settings):
        page.locator("#toast").get_by_role("button", name="Undo").click()
        page.locator(f".proposal:focus[data-key='{key}']").wait_for()
    assert titles.all_inner_texts() == before


def test_undo_takes_back_the_last_decision_even_if_it_is_still_on_its_way(review):
    stage, page = review
    first, second, *_ = keys_of(page)
    page.keyboard.press("j")
    page.keyboard.press("a")
    gone(page, first)
    page.route("**/proposals/decide", lambda route: (page.wait_for_timeout(500), route.continue_()))
    page.keyboard.press("x")
    page.keyboard.press("u")
    page.locator(f".proposal:focus[data-key='{second}']").wait_for()
    states = states_of(stage)
    assert (states[first], states[second]) == ("accepted", "waiting")


def test_a_tag_leads_to_all_its_proposals_and_they_are_accepted_at_once(review):
    stage, page = review
    before = states_of(stage)
    page.locator(".proposal > .tag", has_text="area/garden").first.click()
    page.wait_for_url("**tag=area**")
    keys = keys_of(page)
    assert len(keys) > 10
    page.get_by_role("button", name="Accept all area/garden").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Accept all area/garden")
    assert confirm.get_attribute("class") == "primary"
    confirm.click()
    page.get_by_text("No proposal is like that.").wait_for()
    assert states_of(stage) == before | dict.fromkeys(keys, "accepted")


def test_the_buttons_of_a_row_are_seen_always_stronger_once_it_is_chosen_and_nothing_moves(review):
    _, page = review
    row = page.locator(".proposal").nth(2)
    button, size = row.get_by_role("button", name="Accept"), "one => [one.offsetTop, one.offsetHeight]"
    text = "one => getComputedStyle(one).color"
    before, quiet, strong = row.evaluate(size), button.evaluate(text), page.locator("h1").evaluate(text)
    assert button.evaluate("one => getComputedStyle(one).opacity") == "1"
    assert quiet == page.locator(".lead").evaluate(text)
    row.hover()
    assert button.evaluate(text) == strong != quiet
    page.mouse.move(0, 0)
    assert button.evaluate(text) == quiet
    row.focus()
    assert button.evaluate(text) == strong
    assert row.evaluate(size) == before
    assert page.locator("article.review").first.bounding_box()["width"] <= 46 * 16
    assert page.locator("main button.primary:visible").count() == 1


def test_a_tag_that_is_only_proposed_is_accepted_under_another_name_and_that_is_taken_back_at_once(review):
    stage, page = review

    def waiting():
        with closing(Proposals(stage.state)) as proposals:
            return {one.id: one.tag for one in proposals.of_state(None, "waiting", "addition")}

    all_before = waiting()
    row = page.locator(".proposal", has_text="season/winter").first
    key = int(row.get_attribute("data-key"))
    row.focus()
    page.keyboard.press("r")
    page.get_by_label("New name of season/winter").fill("two words")
    page.locator("#rename-said", has_text="is not a tag").wait_for()
    assert page.get_by_role("dialog").get_by_role("button", name="Rename").is_disabled()
    page.get_by_label("New name of season/winter").fill("season/cold")
    page.locator("#rename-said", has_text="accepted for this note").wait_for()
    with closing(Proposals(stage.state)) as proposals:
        assert proposals.get([key])[0].tag == "season/winter"
    page.keyboard.press("Enter")
    page.locator("#toast", has_text="season/cold").wait_for()
    with closing(Proposals(stage.state)) as proposals:
        renamed = proposals.get([key])[0]
        assert (renamed.tag, renamed.state) == ("season/cold", "accepted")
        assert not [
            one
            for one in proposals.of_state(None, "waiting")
            if one.tag == "season/winter" and one.domain == renamed.domain
        ]
    with working(stage.settings):
        page.locator("#toast").get_by_role("button", name="Undo").click()
        page.locator("#toast", has_text="Waits again: season/winter").wait_for()
    assert waiting() == all_before


def test_a_tag_that_notes_have_is_renamed_in_them_in_the_vocabulary_and_in_proposals(review):
    stage, page = review
    with closing(Proposals(stage.state)) as proposals:
        soil = [(Suggestion("soil", 0.6), "")]
        proposals.add("notes", "Gardens/Garden 10.md", soil, proposer="local", note_hash="h", at=now_iso())
    row = page.locator(".proposal", has_text="soil").first
    with working(stage.settings):
        row.hover()
        row.get_by_role("button", name="Rename soil").click()
        page.get_by_label("New name of soil").fill("earth")
        page.locator("#rename-said", has_text="6 notes and 1 proposal").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        page.locator("#toast", has_text="soil is earth now").wait_for()
    assert "tags: [earth]" in (stage.resources.root / "Soils/Soil 1.md").read_text()
    with closing(Proposals(stage.state)) as proposals:
        assert "earth" in {one.tag for one in proposals.of_state("notes", "waiting", "addition")}
