"""A note's page without a browser: where links lead in two domains, the panel beside the note, and raw text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import closing
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from pipelines.state.evidence import Citation, Evidence, EvidenceHit, EvidenceRecord
from queue_config.settings import Settings
from service.app import create_app
from service.usecases.maintenance import index_once
from tests.browser.serving import cookie_of
from tests.service.web.test_ops_pages import BROWSER, PORT, Tags, shown, signed_in
from workers.resources import Resources

NOTES = {
    "_domains.yaml": "notes:\n  legacy: true\nfitness:\n  path: fitness\n",
    "Soil.md": "---\ntags: [garden]\n---\n# Soil\n\nSee [[Rest]], [[folder/Twin]] and [[Nowhere]].\n\n![[picture.png]]\n",
    "Twin.md": "# Twin of the root\n\nA [[Rest|day]] and again [[rest]].\n",
    "folder/Twin.md": "# Twin of the folder\n\n[[Twin]] and [up](../Soil.md#a-heading).\n",
    "fitness/Rest.md": "---\nup: '[[Soil]]'\n---\n# Rest\n\n[[Twin]] <script>alert(1)</script>\n",
    "a b #? ü.md": "# Odd name\n\ntext\n",
    "Heavy.md": "# Heavy\n\n" + "[a] " * 9_500,
    "Empty.md": "",
    "Big.md": "word " * 10_000,
    "picture.png": "",
}


@pytest.fixture
def written(vault):
    for name, text in NOTES.items():
        (vault / name).parent.mkdir(exist_ok=True)
        (vault / name).write_text(text)
    return vault


@pytest.fixture
def settings(written, tmp_path, tiny_model):
    chosen = Settings(
        vault=written, state=tmp_path / "state", embedding_model=str(tiny_model), max_note_mb=0.04
    )
    index_once(Resources(chosen), lambda *_: None)
    return chosen


@pytest.fixture
def browser(settings):
    return signed_in(settings)


def links(page, part):
    """Return the addresses of the links in the note (`article`) or beside it (`aside`)."""
    inside = page.partition(f"<{part}")[2].partition(f"</{part}>")[0]
    return [has["href"] for tag, has in Tags(inside).found if tag == "a"]


def test_the_page_of_a_document_lists_the_notes_that_it_links_to(written, tmp_path, tiny_model):
    nodes = [
        {"id": "a", "type": "file", "file": "Soil.md", "x": 0, "y": 0},
        {"id": "b", "type": "file", "file": "picture.png", "x": 0, "y": 9},
        {"id": "c", "type": "text", "text": "See [[Twin]] and [[Soil]].", "x": 0, "y": 18},
    ]
    (written / "Plan.canvas").write_text(json.dumps({"nodes": nodes, "edges": []}))
    chosen = Settings(vault=written, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(chosen), lambda *_: None)
    page = shown(signed_in(chosen), "/notes/Plan.canvas")
    section = page.partition("<h2>Links to")[2].partition("</section>")[0]
    assert re.findall(r'href="(.*?)">(.*?)</a>', section) == [
        ("/notes/Soil.md", "Soil"),
        ("/notes/Twin.md", "Twin of the root"),
    ]
    assert "<h2>Links to" not in shown(signed_in(chosen), "/notes/Soil.md")


def test_links_lead_where_the_index_says_also_into_another_domain(browser):
    assert links(shown(browser, "/notes/Soil.md"), "article") == [
        "/?tag=garden",
        "/notes/fitness/Rest.md",
        "/notes/folder/Twin.md",
        "/files/picture.png",
    ]
    assert links(shown(browser, "/notes/folder/Twin.md"), "article") == [
        "/notes/Twin.md",
        "/notes/Soil.md#h-a-heading",
    ]
    assert links(shown(browser, "/notes/fitness/Rest.md"), "article") == ["/notes/Soil.md", "/notes/Twin.md"]
    assert '<span class="dead" title="No file of this name">Nowhere</span>' in shown(
        browser, "/notes/Soil.md"
    )


def test_pictures_of_the_vault_are_shown_and_those_that_are_ignored_or_behind_a_link_are_not(
    browser, written, settings, tmp_path
):
    (tmp_path / "outside.png").write_bytes(b"secret")
    (written / "linked.png").symlink_to(tmp_path / "outside.png")
    for name in ("ignored.png", ".hidden.png", "shown one.png"):
        (written / name).write_bytes(b"x")
    (written / ".everindexignore").write_text("/ignored.png\n")
    names = (
        "linked.png",
        "ignored.png",
        ".hidden.png",
        "gone.png",
        "shown one.png",
        "https://example.org/x.png",
    )
    (written / "Twin.md").write_text("".join(f"![a|20](<{name}>)\n\n![[{name}]]\n\n" for name in names))
    index_once(Resources(settings), lambda *_: None)
    article = shown(browser, "/notes/Twin.md").partition("<article")[2].partition("</article>")[0]
    found = [has for tag, has in Tags(article).found if tag == "img"]
    assert [has["src"] for has in found] == ["/files/shown%20one.png"] * 2
    assert found[0]["width"] == "20"


def test_a_link_to_a_document_leads_to_its_page(browser, written, settings):
    (written / "Plan.canvas").write_text('{"nodes": [{"id": "1", "type": "text", "text": "Dig the bed"}]}')
    (written / "Twin.md").write_text("[[Plan.canvas]] and ![[Plan.canvas#page=3]]\n")
    index_once(Resources(settings), lambda *_: None)
    assert links(shown(browser, "/notes/Twin.md"), "article") == [
        "/notes/Plan.canvas",
        "/notes/Plan.canvas#page=3",
    ]


def test_obsidian_is_given_the_name_that_the_disk_has(browser, written, settings):
    decomposed = written / "Mu\u0308sli.md"
    decomposed.write_text("oats")
    index_once(Resources(settings), lambda *_: None)
    assert "Open in Obsidian" not in shown(browser, "/notes/M\u00fcsli.md")
    (written / ".obsidian").mkdir()
    page = shown(browser, "/notes/M\u00fcsli.md")
    link = f'href="obsidian://open?path={quote(str(decomposed), safe="")}"'
    assert link in page
    assert link in shown(browser, "/?q=oats")


def test_backlinks_of_every_domain_lead_to_their_lines(browser):
    beside = links(shown(browser, "/notes/fitness/Rest.md"), "aside")
    assert "/notes/Soil.md#L6" in beside
    assert "/notes/Twin.md#L3" in beside
    assert "/notes/fitness/Rest.md#L2" in links(shown(browser, "/notes/Soil.md"), "aside")
    page = shown(browser, "/notes/fitness/Rest.md")
    assert "line 3 · 2 links" in page
    assert "Twin of the root" in page


def test_the_panel_is_beside_the_note(browser):
    page = shown(browser, "/notes/Soil.md")
    assert '<span class="state indexed">indexed</span>' in page
    assert '<a class="tag" href="/?tag=garden&amp;q=Soil">garden</a>' in page
    assert "Similar notes" in page
    assert "<h1" in page.partition("<article")[2].partition("Soil.md")[0]


def test_the_text_is_that_of_the_disk_and_a_new_link_waits_for_the_index(browser, written, settings):
    (written / "Twin.md").write_text("# Changed\n\n[[Soil]]\n")
    page = shown(browser, "/notes/Twin.md")
    assert '<span class="dead" title="Not indexed yet">Soil</span>' in page
    index_once(Resources(settings), lambda *_: None)
    assert links(shown(browser, "/notes/Twin.md"), "article") == ["/notes/Soil.md"]


def test_the_records_that_a_note_is_evidence_for_are_beside_it_with_their_quotes(browser, settings):
    hit = EvidenceHit("notes", "Soil.md", "Soil", "", 4, 6, "See Rest", 0.5, 0, "h", "s")
    made = EvidenceRecord(
        "5f0c1e9a77b2",
        "where is <b>rest</b>?",
        None,
        "strong",
        "2026-03-01T10:00:00+00:00",
        (hit,),
        {"h": "See Rest, Twin and Nowhere."},
    )
    with closing(Evidence(settings.state)) as store:
        store.add(made)
        quotes = [
            Citation("Soil.md", text, ("h",), "s") for text in ("See Rest, Twin", "<i>See</i> nobody at all")
        ]
        other = Citation("Twin.md", "of another note", (), None)
        store.curate(made.id, [*quotes, other], {}, notes=None, at="2026-03-02T10:00:00+00:00")
    page = shown(browser, "/notes/Soil.md")
    beside = page.partition("Evidence</h2>")[2].partition("</section>")[0]
    assert '<a href="#L4-L6">where is &lt;b&gt;rest&lt;/b&gt;?</a>' in beside
    assert "2026-03-01 10:00:00 UTC" in beside
    assert re.findall(r"<blockquote>(.*) <span class=\"state [\w-]+\">(.*)</span>", beside) == [
        ("See Rest, Twin", "verified"),
        ("&lt;i&gt;See&lt;/i&gt; nobody at all", "not verified"),
    ]
    assert "Evidence</h2>" not in shown(browser, "/notes/fitness/Rest.md")


def test_raw_text_is_one_link_away_and_is_text(browser):
    assert 'href="/notes/fitness/Rest.md?raw=1"' in shown(browser, "/notes/fitness/Rest.md")
    page = shown(browser, "/notes/fitness/Rest.md?raw=1")
    assert "# Rest\n\n[[Twin]] &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert 'id="other" href="/notes/fitness/Rest.md"' in page


def test_a_note_that_takes_long_to_render_is_shown_as_it_is_written(browser):
    page = shown(browser, "/notes/Heavy.md")
    assert "takes long to render" in page
    assert "[a] [a]" in page
    assert "?raw=1" not in page


def test_a_note_without_text_and_one_that_is_parked_have_their_pages(browser):
    assert "This note has no text." in shown(browser, "/notes/Empty.md")
    page = browser.get("/notes/Big.md")
    assert page.status_code == 404
    assert "max_note_mb" in page.text


def test_unread_parts_of_a_document_are_named_on_its_page(browser, written, settings):
    (written / "Torn.canvas").write_text("{nope")
    (written / "Old.txt").write_bytes("Größe".encode("cp1252"))
    index_once(Resources(settings), lambda *_: None)
    torn = shown(browser, "/notes/Torn.canvas").partition("<article")[2].partition("</article>")[0]
    assert "No text of this file is indexed: it is not valid JSON" in torn
    assert "<dt>Warnings</dt><dd>not UTF-8 at byte 2" in shown(browser, "/notes/Old.txt")
    assert "<dt>Warnings</dt>" not in shown(browser, "/notes/Soil.md")


def test_a_name_with_odd_characters_has_a_page(browser):
    page = shown(browser, f"/notes/{quote('a b #? ü.md')}")
    assert "<title>Odd name" in page
    assert f"/notes/{quote('a b #? ü.md')}?raw=1" in page


@pytest.mark.parametrize(
    "address", ["/notes/Soil.md", "/notes/Soil.md?raw=1", "/notes/Heavy.md", "/notes/Empty.md"]
)
def test_the_page_runs_our_own_scripts_alone(browser, address):
    response = browser.get(address)
    assert "script-src 'self';" in response.headers["content-security-policy"]
    for tag, has in Tags(response.text).found:
        assert not {"style", *filter(lambda name: name.startswith("on"), has)} & set(has)
        assert tag not in ("style", "base", "iframe", "object", "svg", "image")
        assert tag != "img" or has["src"].startswith(("/static/icon.svg?v=", "/files/picture.png"))
        assert tag != "script" or has["src"].startswith("/static/")


def at(settings, client, names=()):
    """Return a signed-in browser at an address."""
    app = create_app(settings, PORT, names)
    found = TestClient(app, base_url=f"http://127.0.0.1:{PORT}", client=(client, 50_000))
    found.headers.update(BROWSER | {"Cookie": "=".join(cookie_of(settings, PORT))})
    return found


def test_programs_are_started_for_a_browser_on_this_machine_alone(settings, programs):
    here = at(settings, "127.0.0.1")
    assert "Open with code" in shown(here, "/notes/Soil.md")
    for elsewhere in (at(settings, "192.168.1.7"), at(settings, "127.0.0.1", ["notes.example"])):
        page = shown(elsewhere, "/notes/Soil.md")
        assert "Open with" not in page
        assert "Show in folder" not in page
        for where in ("program", "folder"):
            assert elsewhere.post("/notes/Soil.md", json={"where": where}).status_code == 403
    assert programs() == []
    assert here.post("/notes/Soil.md", json={"where": "program", "line": 7}).status_code == 200
    assert programs()[-1].endswith("Soil.md:7")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("Soil.md", {"where": "shell"}, 422),
        ("Soil.md", {"where": "program", "line": 0}, 422),
        ("Soil.md", {"where": "program", "line": "1; touch x"}, 422),
        ("nope.md", {"where": "program"}, 404),
        ("picture.png", {"where": "program"}, 404),
        ("_domains.yaml", {"where": "program"}, 404),
        ("..%2foutside.md", {"where": "folder"}, 400),
        ("%2fetc%2fpasswd", {"where": "program"}, 400),
    ],
)
def test_nothing_but_a_note_of_the_index_is_opened(settings, programs, path, body, status):
    here = at(settings, "127.0.0.1")
    assert here.post(f"/notes/{path}", json=body).status_code == status
    assert programs() == []


def test_no_other_site_opens_anything(settings, programs):
    here = at(settings, "127.0.0.1")
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Cookie": ""}):
        assert here.post("/notes/Soil.md", json={"where": "program"}, headers=headers).status_code in (
            401,
            403,
        )
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert here.post("/notes/Soil.md", content="where=program", headers=form).status_code == 415
    assert programs() == []


def test_the_frame_of_diagrams_may_run_its_own_two_scripts_alone_and_needs_a_cookie(browser, settings):
    answer = browser.get("/parts/diagram")
    policy = answer.headers["content-security-policy"]
    scripts = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert len(scripts) == 2
    assert answer.text.lower().count("<script") == 2
    assert f"script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}';" in policy
    assert policy.startswith("default-src 'none';")
    assert policy.endswith("frame-ancestors 'self'; sandbox allow-scripts")
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    stranger = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    for address in (
        "/parts/diagram",
        "/static/vendor/mermaid.tiny.js",
        "/static/vendor/katex.min.js",
        "/files/Soil.md",
    ):
        assert stranger.get(address, headers=BROWSER).status_code == 401


def test_a_backlink_has_the_sentence_around_it_and_a_mention_is_named_once(browser, written, settings):
    (written / "Other.md").write_text(
        "# Other\n\nFirst. The soil <b>of</b> a garden, and Soil again. Last.\n\nRust and subsoil.\n"
    )
    (written / "Third.md").write_text(
        "# Third\n\n![[soil.svg]] https://example.org/soil #soil/clay [[Soil types]]\n"
    )
    (written / "Links.md").write_text(
        "# Links\n\nOne. After [[Soil|the ground]] comes winter! Two.\n\nsoil, too\n"
    )
    index_once(Resources(settings), lambda *_: None)
    page = shown(browser, "/notes/Soil.md")
    assert "<q>After <mark>the ground</mark> comes winter!</q>" in page
    found = shown(browser, "/parts/mentions?path=Soil.md")
    assert re.findall(r'href="(.*?)"', found) == ["/notes/Other.md#L3"]
    assert "<q>The <mark>soil</mark> of a garden, and <mark>Soil</mark> again.</q>" in found
    assert shown(browser, "/parts/mentions?path=fitness/Rest.md").strip() == ""  # `Twin` links to it
    assert browser.get("/parts/mentions?path=nope.md").status_code == 404


def test_properties_beyond_six_are_folded(browser, written, settings):
    (written / "Twin.md").write_text(
        "---\n"
        + "".join(f"key{n}: value {n}\n" for n in range(8))
        + "odd: 'a\"]: OR b'\nmine: [x, 2, true]\n---\ntext\n"
    )
    index_once(Resources(settings), lambda *_: None)
    article = shown(browser, "/notes/Twin.md").partition("<article")[2].partition("</article>")[0]
    first, _, rest = article.partition("<details")
    assert "key5" in first
    assert "key6" not in first
    assert "4 more</summary>" in rest
    assert 'href="/?q=%5Bkey7%3Avalue+7%5D"' in rest
    for asked in re.findall(r'href="(/\?q=.*?)"', article):
        assert "/notes/Twin.md" in shown(browser, asked.replace("&amp;", "&")), asked


def test_while_the_vault_is_unavailable_no_note_is_reported_as_gone(browser, written):
    written.rename(written.with_name("moved"))
    page = browser.get("/notes/Soil.md", headers={"Accept": "text/html"})
    assert page.status_code == 503
    assert f"the vault {written} is not there" in page.text
    assert "no longer exists" not in page.text


def test_a_note_that_is_not_there_has_a_page_of_its_own(browser):
    response = browser.get("/notes/nope.md")
    assert response.status_code == 404
    assert "nope.md is unknown" in response.text
    assert 'aria-label="Everindex"' in response.text
