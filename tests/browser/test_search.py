"""The search page while one types: its requests, its keys, its history, and what it says when something is wrong."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from service.usecases.maintenance import index_once
from tests.browser.test_ops import LOOKS, PHONE, RULES, SHOWN
from tests.pipelines.documents.pdf_files import FONT, page_with, written
from tests.pipelines.documents.pdf_files import words as words_of

STATES = {
    "start": "/",
    "answers": "/?q=soil+compost",
    "filtered": "/?q=soil&folder=Soils&tag=soil",
    "operators": "/?q=soil+tag%3Asoil+OR+%23compost+-kind%3Aletter&folder=Soils",
    "operators-alone": "/?q=tag%3Asoil+-path%3Afitness",
    "linked": "/?q=soil&deep=1",
    "none": "/?q=%22no+such+words%22",
}


@pytest.fixture
def page(large, open_page):
    page = open_page(*large)
    page.goto("/")
    return page


def parts_of(page, kind):
    """Collect the addresses that the page asks for a kind of part."""
    asked = []
    page.on("request", lambda sent: asked.append(sent.url) if f"/parts/{kind}?" in sent.url else None)
    return asked


def words(address):
    return parse_qs(urlsplit(address).query).get("q", [""])[0]


def first_hit(page):
    return page.locator("#found h2 .hit").first


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.getAttribute('href')")


def test_answers_come_while_one_types_and_the_focus_stays_in_the_field(page):
    titles, answers = parts_of(page, "titles"), parts_of(page, "answers")
    page.get_by_role("searchbox").press_sequentially("soil compost", delay=5)
    first_hit(page).wait_for()
    page.wait_for_url("**/?q=soil+compost")
    assert words(answers[-1]) == words(titles[-1]) == "soil compost"
    assert len(answers) < len(titles)
    assert focused(page) == "q"
    assert re.fullmatch(r"\d+ notes?", page.locator("#said").inner_text())
    assert page.title() == "soil compost · Everindex"


def test_names_are_shown_before_answers(page):
    page.route("**/parts/answers?*", lambda _: None)  # never answered
    page.get_by_role("searchbox").press_sequentially("soil 1")
    page.locator("#titles .hit", has_text="Soil 1").first.wait_for()
    assert page.locator("#found h2 .hit").count() == 0


def test_a_newer_question_cancels_the_older_one(page):
    held = []
    page.route(
        "**/parts/answers?*",
        lambda route: held.append(route) if words(route.request.url) == "soil" else route.continue_(),
    )
    cancelled = []
    page.on(
        "requestfailed", lambda sent: cancelled.append(words(sent.url)) if "answers" in sent.url else None
    )
    field = page.get_by_role("searchbox")
    with page.expect_request("**/parts/answers?q=soil"):
        field.press_sequentially("soil")
    field.press_sequentially(" bread")
    first_hit(page).wait_for()
    assert "soil" in cancelled
    assert all("soil bread".startswith(question) for question in cancelled)  # slow typing asks in between
    assert len(held) == 1
    assert page.get_by_role("searchbox").input_value() == "soil bread"


def test_back_and_forward_lead_through_the_questions_that_were_settled(page):
    field = page.get_by_role("searchbox")
    for question in ("soil", "bread"):
        field.fill("")
        field.press_sequentially(question)
        field.press("Enter")
        page.wait_for_url(f"**/?q={question}")
    page.go_back()
    page.wait_for_url("**/?q=soil")
    assert field.input_value() == "soil"
    page.locator("#found mark", has_text=re.compile("soil", re.IGNORECASE)).first.wait_for()
    page.go_back()
    page.wait_for_url(re.compile(r"/$"))
    assert field.input_value() == ""
    page.get_by_role("heading", name="Recently changed").wait_for()
    page.go_forward()
    page.wait_for_url("**/?q=soil")
    first_hit(page).wait_for()


def test_back_from_a_note_shows_the_question_that_was_typed(page):
    page.get_by_role("searchbox").press_sequentially("soil compost")
    first_hit(page).click()
    page.wait_for_url("**/notes/**")
    page.go_back()
    page.wait_for_url("**/?q=soil+compost")
    first_hit(page).wait_for()
    assert page.get_by_role("searchbox").input_value() == "soil compost"


def test_who_goes_on_typing_adds_to_the_question_that_the_page_came_with(page):
    page.goto("/?q=soil")
    page.keyboard.type(" compost")
    assert page.get_by_role("searchbox").input_value() == "soil compost"
    page.wait_for_url("**/?q=soil+compost")
    page.locator("main:not([aria-busy])").wait_for()  # the hits are no longer those of "soil"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/notes/**")
    page.go_back()
    page.keyboard.type(" garden")
    assert page.get_by_role("searchbox").input_value() == "soil compost garden"


def test_keys_reach_the_field_the_notes_and_the_help(page):
    page.goto("/?q=soil+compost")
    page.locator("h2").first.click(position={"x": 600, "y": 2})
    page.keyboard.press("/")
    assert focused(page) == "q"
    page.keyboard.press("ArrowDown")
    hits = [link.get_attribute("href") for link in page.locator("main .hit:visible").all()]
    assert focused(page) == hits[0]
    page.keyboard.press("ArrowDown")
    assert focused(page) == hits[1]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert focused(page) == "q"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys and syntax").wait_for()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert focused(page) == "q"
    page.keyboard.type("a/b?")
    page.keyboard.press("Escape")
    assert page.get_by_role("searchbox").input_value() == "a/b?"  # a browser would empty it
    page.goto("/?q=soil+compost")
    page.wait_for_function(
        "document.activeElement.name === 'q'"
    )  # a browser focuses it some time after the load
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/notes/[^#]+#L\d+-L\d+$"))


def test_a_filter_becomes_a_chip_that_can_be_removed(page):
    page.get_by_role("searchbox").press_sequentially("soil")
    page.get_by_text("Add a filter", exact=True).click()
    page.get_by_label("Folder").fill("Soils")
    page.get_by_label("Folder").press("Tab")
    page.wait_for_url("**/?q=soil&folder=Soils")
    page.locator(".chip", has_text="folder: Soils").wait_for()
    assert page.get_by_label("Folder", exact=True).input_value() == ""
    page.get_by_label("Tag", exact=True).fill("soil")
    page.get_by_label("Tag", exact=True).press("Enter")
    page.wait_for_url("**/?q=soil&folder=Soils&tag=soil")
    page.locator(".chip", has_text="tag: soil").wait_for()
    page.get_by_role("link", name="Remove the filter folder: Soils").click()
    page.wait_for_url("**/?q=soil&tag=soil")
    page.locator(".chip", has_text="folder").wait_for(state="detached")
    page.go_back()
    page.locator(".chip", has_text="folder: Soils").wait_for()


def test_an_operator_that_is_typed_becomes_a_chip_and_its_link_takes_it_out_of_the_question(page):
    page.get_by_role("searchbox").press_sequentially("compost tag:soil OR #market -folder:fitness", delay=2)
    remove = page.get_by_role("link", name="Remove from the question: tag: market")
    remove.wait_for()
    assert page.locator("#chips .chip").evaluate_all(
        "all => all.map((one) => one.innerText.split('\\n')[0])"
    ) == [
        "tag: soil ×",
        "or tag: market ×",
        "not folder: fitness ×",
    ]
    remove.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=compost+tag%3Asoil+-folder%3Afitness")
    remove.wait_for(state="detached")
    assert page.get_by_role("searchbox").input_value() == "compost tag:soil -folder:fitness"
    assert focused(page) == "q"
    page.go_back()
    remove.wait_for()
    assert page.get_by_role("searchbox").input_value() == "compost tag:soil OR #market -folder:fitness"


def test_operators_alone_list_the_notes_that_pass(page):
    page.get_by_role("searchbox").press_sequentially("tag:soil", delay=2)
    page.locator("#count", has_text="50 notes pass these filters").wait_for()
    assert page.locator("#found a.hit").count() == 20
    assert page.locator("#titles").is_hidden()


def test_without_scripts_a_chip_is_a_link_to_the_question_without_it(large, open_page):
    page = open_page(*large, java_script_enabled=False)
    page.goto("/?q=compost+tag%3Asoil+-%23market&folder=Soils")
    page.get_by_role("link", name="Remove from the question: not tag: market").click()
    assert urlsplit(page.url).query == "q=compost+tag%3Asoil&folder=Soils"
    page.get_by_role("link", name="Remove from the question: tag: soil").click()
    assert urlsplit(page.url).query == "q=compost&folder=Soils"


def test_a_filter_that_is_entered_hides_the_notes_that_are_called_so(page):
    page.locator("#q").press_sequentially("soil")
    page.locator("#titles a").first.wait_for()
    page.get_by_text("Add a filter", exact=True).click()
    page.get_by_label("Tag", exact=True).fill("nowhere")
    page.get_by_label("Tag", exact=True).press("Enter")
    page.get_by_role("link", name="Remove the filter tag: nowhere").wait_for()
    page.locator("#found .none").wait_for()
    page.wait_for_timeout(500)
    assert page.locator("#titles a").count() == 0


def test_a_note_and_a_section_are_filters_like_the_others(page):
    page.goto("/?q=soil")
    where = first_hit(page)
    where.wait_for()
    path = unquote(urlsplit(where.get_attribute("href")).path).removeprefix("/notes/")
    page.get_by_text("Add a filter", exact=True).click()
    page.get_by_label("Path", exact=True).fill(path)
    page.get_by_label("Path", exact=True).press("Tab")
    page.locator(".chip", has_text=f"path: {path}").wait_for()
    assert page.locator("#found > ol > li").count() == 1
    page.get_by_label("Section", exact=True).fill("no such heading")
    page.get_by_label("Section", exact=True).press("Enter")
    page.locator(".chip", has_text="section: no such heading").wait_for()
    first_hit(page).wait_for(state="detached")


def test_fields_of_filters_offer_what_notes_have_once_they_are_opened(page):
    offered = page.locator("#tag-values option")
    assert offered.count() == 0
    before = page.locator("#found").bounding_box()
    page.get_by_text("Add a filter", exact=True).click()
    offered.first.wait_for(state="attached")
    assert {"soil", "bread"} <= set(offered.evaluate_all("(all) => all.map((one) => one.value)"))
    assert page.get_by_label("Tag", exact=True).evaluate("(field) => field.list.id") == "tag-values"
    page.get_by_text("Add a filter", exact=True).click()
    assert page.locator("#found").bounding_box() == before


def test_answers_are_narrowed_down_by_one_click(page):
    page.get_by_role("searchbox").press_sequentially("soil compost")
    page.get_by_role("link", name=re.compile("^Soils. [0-9]+ of these notes$")).click()
    page.wait_for_url("**/?q=soil+compost&folder=Soils")
    page.locator(".chip", has_text="folder: Soils").wait_for()
    assert all(
        where.startswith("Soils/")
        for where in page.locator("#found li > .where:nth-of-type(1)").all_inner_texts()
    )
    assert focused(page) == "q"


def test_a_filter_applies_to_what_was_typed_since_its_link_was_drawn(page):
    page.route("**/parts/answers?q=soil+composts", lambda _: None)  # never answered, so the old links stay
    page.get_by_role("searchbox").press_sequentially("soil compost")
    narrower = page.get_by_role("link", name=re.compile("^Soils. [0-9]+ of these notes$"))
    narrower.wait_for()
    page.get_by_role("searchbox").press_sequentially("s")
    narrower.click()
    page.wait_for_url("**/?q=soil+composts&folder=Soils")
    page.locator(".chip", has_text="folder: Soils").wait_for()


def test_a_passage_opens_in_place_and_says_which_lines_answer(page):
    page.goto("/?q=soil+compost")
    hit = page.locator("#found > ol > li").first
    hit.get_by_text("Passage", exact=True).click()
    hit.locator(".passage .answers").first.wait_for()
    assert "**" not in hit.locator(".passage").inner_text()
    assert page.url.endswith("/?q=soil+compost")


def test_an_unavailable_service_is_named_and_asked_again(page, open_page):
    page.route("**/parts/**", lambda route: route.abort())
    page.get_by_role("searchbox").press_sequentially("soil")
    page.get_by_role("alert").get_by_text("The service cannot be reached").wait_for()
    page.unroute("**/parts/**")
    first_hit(page).wait_for()
    assert page.locator("#notice").inner_text() == ""
    open_page.expected.append("ERR_FAILED")


def test_names_are_asked_for_again_like_answers(page, open_page):
    page.goto("/?q=soil+1")
    page.locator("#titles .hit", has_text="Soil 1").first.wait_for()
    page.route("**/parts/**", lambda route: route.abort())
    page.get_by_role("searchbox").fill("xylophone")
    page.get_by_role("alert").get_by_text("The service cannot be reached").wait_for()
    page.unroute("**/parts/**")
    page.locator("#titles").wait_for(state="hidden")
    open_page.expected.append("ERR_FAILED")


def test_answers_by_word_only_are_replaced_once_the_model_is_there(page):
    def loading(route):
        text = route.fetch().text().replace('<div id="found">', '<div id="found" data-loading>')
        route.fulfill(body=text, content_type="text/html")

    page.route("**/parts/answers**", loading)
    page.get_by_role("searchbox").press_sequentially("soil")
    page.locator("#found[data-loading] .hit").first.wait_for()
    page.locator(".passage summary").first.click()
    page.unroute_all(behavior="wait")
    page.wait_for_timeout(3000)
    assert page.locator(".passage[open]").count() == 1  # it is being read
    page.locator(".passage summary").first.click()
    page.locator("#found:not([data-loading]) .hit").first.wait_for()


def test_a_session_that_ended_during_typing_is_reported_with_its_cure(page, open_page):
    page.context.clear_cookies()
    page.get_by_role("searchbox").press_sequentially("soil")
    page.get_by_role("alert").get_by_text("everindex open").wait_for()
    assert page.get_by_role("searchbox").input_value() == "soil"
    open_page.expected.append("401")


def test_a_filter_that_cannot_be_used_is_reported_while_one_types(page, open_page):
    page.goto("/?q=soil&tag=two+words")
    page.get_by_role("searchbox").press_sequentially(" and")
    page.get_by_role("alert").get_by_text("tag cannot be").wait_for()
    page.get_by_role("link", name=re.compile("Remove the filter")).click()
    first_hit(page).wait_for()
    open_page.expected.append("422")


def test_without_javascript_the_form_answers(large, open_page):
    page = open_page(*large, java_script_enabled=False)
    page.goto("/")
    page.get_by_text("Add a filter", exact=True).click()
    page.get_by_label("Folder").fill("Soils")
    page.get_by_role("searchbox").fill("soil")
    page.keyboard.press("Enter")
    page.wait_for_url("**folder=Soils**")
    assert first_hit(page).is_visible()
    page.get_by_role("searchbox").fill("compost")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=compost&folder=Soils**")
    page.get_by_role("link", name="Remove the filter folder: Soils").click()
    page.wait_for_url(re.compile(r"\?q=compost$"))


def test_what_can_be_done_with_a_hit_is_seen_always_and_stronger_once_it_is_looked_at(page):
    page.goto("/?q=soil")
    hit = page.locator("#found ol > li").nth(1)
    link, text = hit.get_by_role("link", name="Details"), "one => getComputedStyle(one).color"
    quiet = page.locator(".facts").first.evaluate(text)
    assert link.evaluate("one => getComputedStyle(one).opacity") == "1"
    assert link.evaluate(text) == quiet
    hit.hover()
    assert link.evaluate(text) == page.locator("body").evaluate(text) != quiet


def test_a_phone_shows_every_state_without_overflow_while_one_types(large, open_page):
    page = open_page(*large, viewport=PHONE, has_touch=True)
    page.goto("/")
    page.get_by_role("searchbox").press_sequentially("soil compost with a rather long question about rivers")
    first_hit(page).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("look", SHOWN)
def test_every_state_is_accessible(look, large, open_page, axe, screenshots):
    page = open_page(*large, **LOOKS[look])
    for name, address in STATES.items():
        page.goto(address)
        page.screenshot(path=screenshots / f"search-{name}-{look}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        found = axe.run(page, options={"resultTypes": ["violations"]} | RULES[look]).response["violations"]
        assert [
            (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
        ] == [], name
    page.goto("/?q=soil")
    page.get_by_role("button", name="Keys and syntax").click()
    page.screenshot(path=screenshots / f"search-help-{look}.png")


def test_a_pdf_is_opened_from_a_hit_at_the_page_of_its_passage(small, open_page):
    stage, address = small
    pages = [b"The first page is about bees.", b"The second page tells of quinces and medlars."]
    font, kids = len(pages) * 2 + 3, b" ".join(b"%d 0 R" % (3 + 2 * at) for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
    ]
    for at, text in enumerate(pages):
        objects += [page_with(4 + 2 * at, font), words_of(text)]
    (stage.resources.root / "Soils/Orchard.pdf").write_bytes(written(*objects, FONT))
    domains = stage.resources.root / "_domains.yaml"
    domains.write_text(domains.read_text().replace("legacy: true", "legacy: true\n  formats: [md, pdf]"))
    index_once(stage.resources, lambda *_: None)
    page = open_page(stage, address)
    page.goto("/?q=quinces+medlars")
    hit = page.locator("#found h2 .hit", has_text="Orchard")
    hit.click()
    page.wait_for_url("**/notes/Soils/Orchard.pdf#L*")
    link = page.locator("#open-file[href$='#page=2']")
    link.wait_for()
    file = page.request.get(link.get_attribute("href").partition("#")[0])
    assert (file.status, file.headers["content-type"]) == (200, "application/pdf")
    assert file.headers["content-disposition"].startswith("inline")
    assert file.body().startswith(b"%PDF-")
    with page.context.expect_page() as opened:
        link.click(modifiers=["ControlOrMeta"])
    opened.value.wait_for_url("**/files/Soils/Orchard.pdf#page=2")
