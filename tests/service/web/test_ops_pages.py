"""The dashboard's pages without a browser: access, content, and that everything from notes is text."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from html.parser import HTMLParser
from urllib.parse import urlencode

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markupsafe import escape
from starlette.testclient import TestClient

from pipelines.model import now_iso
from pipelines.state.jobs import History, Result
from pipelines.state.tags import Proposals
from queue_config.settings import Settings
from service.app import create_app
from service.usecases.maintenance import index_once
from service.web.filters import ago, count, millis, size, span
from service.web.ops import (
    EVERY_SECONDS,
    HEIGHT,
    MOST_LISTENERS,
    WIDTH,
    EventStream,
    Listeners,
    Pulse,
    bar_chart,
    ceiling,
    line_chart,
)
from tests.browser.serving import cookie_of
from tests.browser.stage import HOSTILE, HOSTILE_FILE, HOSTILE_PIPE, make_stage
from tests.working import indexed
from workers.heartbeat import process_name
from workers.resources import Resources
from workers.tasks import compare

PORT = 8741
BROWSER = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
PAGES = (
    "/ops", "/ops?hours=24", "/ops/queue", "/ops/jobs", "/ops/jobs?state=failed", "/ops/parked", "/ops/notes",
    "/ops/notes?q=soil", "/ops/review", "/ops/review?state=rejected", "/ops/review?state=applied", "/ops/review?missing=true",
    "/ops/communities",
)  # fmt: skip


def signed_in(settings):
    browser = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    browser.headers.update(BROWSER | {"Cookie": "=".join(cookie_of(settings, PORT))})
    return browser


@pytest.fixture(scope="module")
def stage(tmp_path_factory, tiny_model):
    return make_stage(tmp_path_factory.mktemp("ops"), tiny_model, notes=40, jobs=200)


@pytest.fixture(scope="module")
def browser(stage):
    return signed_in(stage.settings)


@pytest.fixture
def empty(vault, tmp_path, tiny_model):
    """The dashboard of a vault without any jobs or notes."""
    return signed_in(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))


class Tags(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def shown(browser, address, status=200):
    response = browser.get(address)
    assert response.status_code == status, response.text
    return response.text


def test_the_time_of_a_save_is_of_one_domain_and_includes_the_time_to_settle(vault, tmp_path, tiny_model):
    (vault / "_domains.yaml").write_text("quick: {legacy: true}\nslow: {}\n")
    settings = Settings(
        vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model), settle_seconds=2
    )
    resources = Resources(settings)
    resources.caches()
    history = History(resources.place.state)
    for domain, saved in {"quick": [10.0, 10.0, 5000.0], "slow": [500.0, 500.0, 600.0]}.items():
        number = history.start("id", "index_notes", domain, worker=process_name(), paths=("a.md",))
        history.finish(number, Result(state="done", ran_ms=1.0, saved_ms={domain: saved}))
    page = shown(signed_in(settings), "/ops")
    tile = page.partition("Save to findable")[2][:400]
    assert "2.5 s" in tile
    assert "95 % within 2.6 s" in tile
    assert '<td class="number">2.5 s</td><td class="number">2.6 s</td>' in page
    assert "slow" in tile


@pytest.mark.parametrize("address", PAGES)
def test_no_page_is_shown_without_signing_in(stage, address):
    stranger = TestClient(create_app(stage.settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    assert stranger.get(address, headers=BROWSER).status_code == 401


@pytest.mark.parametrize("address", PAGES)
def test_a_page_runs_our_own_scripts_alone(browser, address):
    response = browser.get(address)
    policy = response.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    for tag, attributes in Tags(response.text).found:
        assert not {"style", *filter(lambda name: name.startswith("on"), attributes)} & set(attributes)
        assert tag not in ("style", "base", "iframe", "object")
        if tag == "script":
            assert attributes["src"].startswith(("/static/ops", "/static/site"))


@pytest.mark.parametrize("address", PAGES)
def test_every_page_is_there_before_anything_was_done(empty, address):
    shown(empty, address)


@pytest.mark.parametrize("address", [*PAGES, "/ops/notes?" + urlencode({"q": HOSTILE_FILE}), "/?q=soil"])
def test_nothing_that_notes_jobs_or_tags_say_is_markup(browser, address):
    page = shown(browser, address)
    for marker in ("<img src=x", "<script>alert", "<b>", "<i>"):
        assert marker not in page
    assert "onerror" not in {name for _, attributes in Tags(page).found for name in attributes}


def test_a_title_with_markup_is_shown_as_it_is(browser):
    page = shown(browser, "/ops/notes?" + urlencode({"q": HOSTILE_FILE}))
    assert f"<strong>{escape(HOSTILE)}</strong>" in page


def test_what_is_typed_is_shown_as_text(browser):
    for address in (
        "/ops/notes?q=",
        "/ops/jobs?path=",
        "/ops/jobs?error=",
        "/?q=",
        "/?q=a&folder=",
        "/?q=a&domain=",
    ):
        page = browser.get(address + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E").text
        assert "<script>alert" not in page


def test_a_domain_whose_cache_is_damaged_is_named_and_every_page_is_still_there(tmp_path, tiny_model):
    stage = make_stage(tmp_path, tiny_model, notes=10, jobs=5)
    browser = signed_in(stage.settings)  # it would not start with such a cache
    for file in stage.state.glob("cache-fitness.1.db*"):
        file.write_bytes(b"no database" * 1000)
    for address in PAGES:
        shown(browser, address)
    assert "<strong>fitness</strong>:" in shown(browser, "/ops")


# Jobs


def test_following_older_shows_every_job_once(browser):
    address, seen = "/ops/jobs?background=1", []
    while address:
        page = shown(browser, address)
        seen += re.findall(r'href="/ops/jobs/(\d+)"', page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        address = older[1].replace("&amp;", "&") if older else None
    assert [int(number) for number in seen] == list(range(201, 0, -1))


def test_older_keeps_the_filter(browser):
    page = shown(browser, "/ops/jobs?task=index_notes&path=Soil+%261")
    assert "No job matches" in page
    older = re.search(r'rel="next" href="([^"]+)"', shown(browser, "/ops/jobs?task=index_notes&path=Soils/"))
    assert older
    assert "task=index_notes&path=Soils%2F&before=" in older[1].replace("&amp;", "&")


@pytest.mark.parametrize("number", ["999999", "0", "9" * 40])
def test_a_missing_job_is_reported_as_gone(browser, number):
    assert "There is no such job" in shown(browser, f"/ops/jobs/{number}", 404)


@pytest.mark.parametrize("query", ["before=0", "before=9999999999999999999", "before=x", "state=odd"])
def test_what_no_link_of_ours_asks_for_is_refused(browser, query):
    shown(browser, f"/ops/jobs?{query}", 422)


# Notes


@pytest.mark.parametrize(
    ("typed", "state"),
    [
        ("Soils/Soil 1.md", "indexed"),
        ("Soon 1.md", "pending"),
        ("pipe.md", "parked"),
        (HOSTILE_PIPE, "parked"),
        ("plain.rtf", "ignored"),
        ("no/such note.md", "unknown"),
        ("../../etc/passwd", "unknown"),
        ("/etc/passwd.md", "ignored"),
        ("../elsewhere.md", "ignored"),
    ],
)
def test_why_says_whether_a_path_is_indexed_and_why_not(browser, typed, state):
    page = shown(browser, "/ops/notes?" + urlencode({"q": typed}))
    assert f'<p class="verdict"><span class="state {state}">' in page


def test_a_walk_from_a_note_that_is_not_in_says_why(browser):
    assert '<span class="state parked">' in shown(browser, "/ops/walk?path=pipe.md", 404)


def test_a_walk_says_in_words_how_it_found_a_note(browser):
    page = shown(browser, "/ops/walk?" + urlencode({"path": "Soils/Soil 1.md"}))
    assert "the walk starts here" in page
    assert "1 link away, linked from Soils/Soil 1.md" in page
    similarities = re.findall(r'<td class="number">(-?\d\.\d\d)</td>', page.partition("Left out")[0])
    assert len(similarities) > 1
    assert similarities == sorted(similarities, key=float, reverse=True)


@pytest.fixture(scope="module")
def named(tmp_path_factory, tiny_model):
    """The dashboard of a vault whose notes have names of every kind."""
    base = tmp_path_factory.mktemp("named")
    (base / "vault").mkdir()
    (base / "vault/w-2.md").write_text("---\naliases: [Worm farm, Bin]\n---\n# The wormery\n\nWarm.")
    (base / "vault/Heap.md").write_text("---\naliases: [Bin]\n---\nWarmer.")
    (base / "vault/Attic").mkdir()
    (base / "vault/Attic/Old worms.md").write_text("A draft.")
    (base / "vault/.everindexignore").write_text("/Attic/\n")
    settings = Settings(vault=base / "vault", state=base / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    return signed_in(settings)


@pytest.mark.parametrize("name", ["Old worms", "old worms.md"])
def test_an_ignored_note_is_shown_by_its_file_name(named, name):
    page = shown(named, "/ops/notes?" + urlencode({"q": name}))
    assert '<p class="verdict"><span class="state ignored">' in page
    assert "Attic/Old worms.md" in page


@pytest.mark.parametrize("name", ["The wormery", "worm-farm", "w 2", "W-2", "w-2.md"])
def test_the_only_note_of_a_name_is_shown(named, name):
    page = shown(named, "/ops/notes?" + urlencode({"q": name}))
    assert (
        '<p class="verdict"><span class="state indexed">indexed</span> <strong>The wormery</strong>' in page
    )
    assert '<p class="where">w-2.md' in page


def test_where_several_notes_have_a_name_all_are_listed(named):
    page = shown(named, "/ops/notes?q=bin")
    assert "Notes of this name" in page
    assert re.findall(r'<li><a href="/ops/notes\?q=([^"]+)">', page) == ["Heap.md", "w-2.md"]
    assert "Notes with a similar name" in shown(named, "/ops/notes?q=wormer")


def test_a_note_shows_its_proposals_and_no_other_ones(browser):
    page = shown(browser, "/ops/notes?q=fitness/Garden 0.md")
    assert "season/winter" in page
    assert "Proposed tags<" not in shown(browser, "/ops/notes?q=Soils/Soil 1.md")


def test_the_queues_page_calls_a_domain_indexing_only_while_notes_of_it_wait(vault, tmp_path, tiny_model):
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    resources = Resources(settings)
    index_once(resources, lambda *_: None)
    browser = signed_in(settings)
    assert ">indexing<" not in shown(browser, "/ops/queue")
    (vault / "New.md").write_text("new")
    compare(resources, confirmed=False)
    assert ">indexing<" in shown(browser, "/ops/queue")


# The search page


def test_a_filter_that_cannot_be_read_is_reported_on_the_page(browser):
    assert "tag cannot be" in shown(browser, "/?q=soil&tag=two+words", 422)
    assert "there is no domain" in shown(browser, "/?q=soil&domain=nowhere", 422)


def test_empty_fields_of_the_form_filter_nothing(browser):
    fields = "domain=&folder=&tag=&author=&kind=&since=&until=&community=&has="
    hits = re.findall(r'<h2><a href="([^"]+)"', shown(browser, f"/?q=soil&{fields}"))
    assert hits == re.findall(r'<h2><a href="([^"]+)"', shown(browser, "/?q=soil"))
    assert hits


# Events


def test_the_facts_are_found_once_however_many_ask():
    now, found = [0.0], []
    pulse = Pulse(lambda: found.append(1) or {"n": len(found)}, lambda: now[0])
    assert [pulse.now() for _ in range(5)] == [{"n": 1}] * 5
    now[0] += EVERY_SECONDS
    assert pulse.now() == {"n": 2}


def test_a_listener_hears_the_facts_even_after_they_could_not_be_found():
    answers = iter([{"n": 1}, OSError("away"), {"n": 2}])

    def find():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def hear():
        clock = iter(range(0, 1000, 10))
        messages = Listeners(Pulse(find, lambda: float(next(clock))), every=0.0).messages(asyncio.Event())
        return [await anext(messages) for _ in range(4)]

    heard = anyio.run(hear)
    assert heard[0].startswith("retry: ")
    assert heard[1:] == ['data: {"n": 1}\n\n', ": nothing new\n\n", 'data: {"n": 2}\n\n']


def test_too_many_listeners_are_asked_to_come_again_and_a_place_is_free_when_one_goes():
    async def listen():
        listeners = Listeners(Pulse(dict))
        begun, scope = [], {"type": "http", "path": "/ops/events", "method": "GET", "headers": []}

        async def forever():
            await anyio.sleep_forever()

        async def send(message):
            if message["type"] == "http.response.start":
                begun.append(message["status"])

        async with anyio.create_task_group() as group:
            for _ in range(MOST_LISTENERS):
                group.start_soon(EventStream(listeners, asyncio.Event()), scope, forever, send)
            await anyio.wait_all_tasks_blocked()
            await EventStream(listeners, asyncio.Event())(scope, forever, send)
            group.cancel_scope.cancel()
        return begun, listeners.count

    begun, left = anyio.run(listen)
    assert (begun, left) == ([200] * MOST_LISTENERS + [503], 0)


def test_a_stream_ends_by_itself_when_the_server_stops():
    async def listen():
        listeners, stopping, sent = Listeners(Pulse(dict), every=3600.0), asyncio.Event(), []

        async def send(message):
            sent.append(message)
            if message.get("body", b"").startswith(b"data:"):
                stopping.set()

        scope = {"type": "http", "path": "/ops/events", "method": "GET", "headers": []}
        await EventStream(listeners, stopping)(scope, anyio.sleep_forever, send)
        return sent, listeners.count

    sent, left = anyio.run(listen)
    assert (sent[-1]["body"], sent[-1]["more_body"], left) == (b"", False, 0)


# Charts and words


def test_a_chart_has_the_values_of_its_lines_and_a_table_of_what_happened(browser):
    figure = shown(browser, "/ops?hours=24").partition('<figure class="chart">')[2].partition("</figure>")[0]
    scale = [float(value) for value in re.findall(r"<span>([\d.]+)</span>", figure)]
    assert scale == [scale[0], scale[0] / 2, 0]
    rows = re.findall(r'<td class="number">(\d+)</td><td class="number">(\d+)</td>', figure)
    assert sum(int(done) + int(failed) for done, failed in rows) == 200
    bars = re.findall(r'<title data-at="[^"]+" data-said="(\d+) done, (\d+) failed', figure)
    assert [bar for bar in bars if bar != ("0", "0")] == rows


counts = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=100)


@given(counts)
def test_bars_stay_in_their_picture_and_are_stacked(values):
    chart = bar_chart(values, [""] * len(values))
    assert len(chart.bars) == len(values)
    for bar in chart.bars:
        assert -0.01 <= bar.failed_top <= bar.top <= HEIGHT
        assert abs(bar.failed_top + bar.failed_height - bar.top) < 0.02
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH + 0.01
    assert chart.empty == (not any(map(any, values)))


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=100))
@example([5e-324])
def test_a_line_has_every_value_in_its_picture_and_no_bridge_over_a_gap(values):
    chart = line_chart(values, [""] * len(values))
    assert sum(map(len, chart.lines)) == sum(value is not None for value in values)
    assert len(chart.lines) == sum(
        value is not None and (at == 0 or values[at - 1] is None) for at, value in enumerate(values)
    )
    assert all(0 <= dot.y <= HEIGHT and 0 <= dot.x <= WIDTH for line in chart.lines for dot in line)


@given(st.floats(1e-6, 1e15))
def test_a_scale_ends_at_a_round_number_that_is_not_far_above(largest):
    assert largest * (1 - 1e-6) <= ceiling(largest) <= largest * 2.5 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "—"), (0, "0 ms"), (0.84, "840 ms"), (0.99999, "1.0 s"), (9.96, "10 s"), (59.9, "1 min"), (61, "1 min 1 s"),
     (7200, "2 h"), (90_061, "1 d 1 h")],
)  # fmt: skip
def test_a_span_is_written_in_its_two_largest_units(seconds, text):
    assert span(seconds) == text


@given(st.floats(0, 1e10))
def test_every_span_can_be_written(seconds):
    assert re.fullmatch(r"\d+(\.\d)? (ms|s|min|h|d)( \d+ (s|min|h))?", span(seconds))


def test_counts_and_sizes_are_written_as_one_reads_them():
    assert (count(1234567), size(184_000_000), size(None), millis(None), millis(1500)) == (
        "1,234,567", "184 MB", "—", "—", "1.5 s",
    )  # fmt: skip
    assert (ago(None), ago("2020-01-01T00:00:00")[-5:]) == ("—", "d ago")


# Tags


def test_what_the_vocabulary_lacks_is_listed_on_demand_with_notes_that_have_it(browser):
    assert 'id="missing"' not in shown(browser, "/ops/review")
    page = shown(browser, "/ops/review?missing=true")
    assert '<span class="tag">winter</span>' in page
    assert 'href="/notes/Winters/Winter%20' in page
    found = browser.get(
        "/missing-tags", params={"domain": "notes"}, headers={"Accept": "application/json"}
    ).json()
    assert "winter" in [one["phrase"] for one in found["missing"]]


def test_the_review_page_says_that_accepting_a_new_tag_extends_the_vocabulary(vault, tmp_path, tiny_model):
    (vault / "Soil.md").write_text("# Soil\n")
    settings = indexed(vault, tmp_path / "state", tiny_model, {})
    with closing(Proposals(settings.state)) as proposals:
        proposals.want("vault", "Soil.md", "mulch", "", "addition", now_iso())
        proposals.want("vault", "Soil.md", "humus", "", "addition", now_iso())
    page = shown(signed_in(settings), "/ops/review")
    assert "2 tags for 1 note. 2 tags are new, and added to the vocabulary: humus, mulch. You can" in page
    assert page.count("added to the vocabulary") == 1  # rejecting adds none
    assert "not in the vocabulary yet: accepting it adds it" in page
    assert "% sure" not in page
