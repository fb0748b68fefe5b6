"""A page of the answers: copies folded, as many results as were asked for, and nothing twice."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from starlette.testclient import TestClient

from pipelines.errors import FilterError
from pipelines.filters import Filters
from pipelines.question import read_question
from pipelines.search import thresholds
from queue_config.settings import Settings
from service.app import create_app
from service.runtime.client import read_token
from service.usecases.audience import Audience
from service.usecases.maintenance import index_once
from service.usecases.search import View
from service.usecases.text import REFINING
from workers.resources import Resources

PORT = 8751
COPIES, OTHERS = 70, 30


@pytest.fixture(scope="module")
def settings(tmp_path_factory, tiny_model):
    """An indexed vault: many copies of one note, and others that have the word as well."""
    base = tmp_path_factory.mktemp("paging")
    root = base / "vault"
    (root / "copies").mkdir(parents=True)
    for number in range(COPIES):
        (root / f"copies/{number:02}.md").write_text("Heron heron heron, a heron stands in the river.\n")
    for number in range(OTHERS):
        (root / f"other {number:02}.md").write_text(
            f"# Other {number}\n\nA heron, seen by {number} people of the town.\n"
        )
    settings = Settings(vault=root, state=base / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    return settings


@pytest.fixture
def questions(settings):
    return View(Resources(settings), wait_for_model=True)


def paths(answer):
    return [hit.path for hit in answer.results]


def test_copies_are_folded_behind_one_and_cost_no_result(questions):
    answer = questions.search(read_question("heron"), 10)
    assert answer.count == 10
    folded = [hit for hit in answer.results if hit.alike]
    assert len(folded) == 1
    assert folded[0].path.startswith("copies/")
    assert {one.path for one in folded[0].alike} < {f"copies/{n:02}.md" for n in range(COPIES)}
    assert {one.score <= folded[0].score for one in folded[0].alike} == {True}
    unfolded = questions.search(read_question("heron"), 10, fold=False)
    assert unfolded.count == 10
    assert all(not hit.alike for hit in unfolded.results)


def test_a_note_whose_name_is_asked_for_is_not_folded(questions):
    assert "copies/42.md" in paths(questions.search(read_question("42"), 10))


def test_pages_are_one_list(questions):
    whole, offset = [], 0
    while True:
        page = questions.search(read_question("heron"), 7, offset=offset)
        assert (page.offset, page.count) == (offset, len(page.results))
        whole += paths(page)
        offset += 7
        if not page.more:
            break
        assert page.count == 7
    assert len(whole) == len(set(whole)) == OTHERS + 1
    assert questions.search(read_question("heron"), 7, offset=offset).results == []
    unfolded = [
        path
        for n in range(3)
        for path in paths(questions.search(read_question("heron"), 7, offset=7 * n, fold=False))
    ]
    assert len(set(unfolded)) == 21


PHRASINGS = ("heron of the river", "people of the town", "seen by 7")


def test_several_phrasings_of_a_question_are_merged_by_the_mean_of_their_scores(questions):
    asked = [read_question(one) for one in PHRASINGS]
    apart = [questions.search(one, 50).results for one in asked]
    scores, matches, copies = {}, {}, set()
    for hits in apart:
        for hit in hits:
            scores[hit.path] = scores.get(hit.path, 0.0) + hit.score / len(asked)
            matches.setdefault(hit.path, set()).add(hit.match)
            copies |= {one.path for one in hit.alike}
    merged = questions.search(asked[0], 50, also=asked[1:], explain=True)
    assert merged.query == PHRASINGS[0]
    assert len(merged.results) > max(map(len, apart)) - len(copies)
    for hit in merged.results:
        assert hit.score == pytest.approx(scores[hit.path], abs=1e-5)
        assert sum(hit.signals.values()) == pytest.approx(hit.score, abs=1e-5)
        assert hit.match == thresholds.best_match(matches[hit.path])
    found = [hit.score for hit in merged.results]
    assert found == sorted(found, reverse=True)
    assert scores.keys() - copies <= set(paths(merged)) | {
        one.path for hit in merged.results for one in hit.alike
    }
    assert len(set(paths(merged))) == len(merged.results)


def test_merged_answers_are_distinct_and_say_no_reason_of_a_phrasing_that_found_nothing(questions):
    nothing = read_question("heron tag:nowhere")
    assert questions.search(nothing, 5).reason is not None
    answer = questions.search(nothing, 5, also=[read_question("heron")])
    assert (answer.count, answer.reason) == (5, None)
    listed = [path for hit in answer.results for path in (hit.path, *(one.path for one in hit.alike))]
    assert len(listed) == len(set(listed))


def test_the_pages_of_several_phrasings_are_one_list(questions):
    asked = [read_question(one) for one in PHRASINGS]
    whole = paths(questions.search(asked[0], 50, also=asked[1:]))
    pages = [questions.search(asked[0], 4, offset=4 * n, also=asked[1:]) for n in range(3)]
    assert [path for page in pages for path in paths(page)] == whole[:12]
    assert {page.more for page in pages} == {True}
    assert questions.search(asked[0], 4, offset=len(whole), also=asked[1:]).results == []


def test_a_phrasing_has_words(questions):
    for typed in ("tag:x", "  "):
        with pytest.raises(FilterError, match=f"'{typed}' has no words to search for"):
            questions.search(read_question("heron"), 4, also=[read_question(typed)])


def test_phrasings_are_given_in_the_address_or_in_a_body(browser):
    _, *others = PHRASINGS
    asked = {"q": PHRASINGS[0], "k": 5, "folder": "copies"}
    address = browser.get("/search", params=asked | {"also": others}).json()
    body = browser.post("/search", json=asked | {"also": others}).json()
    alone = browser.get("/search", params=asked).json()
    assert paths_of(address) == paths_of(body)
    assert {hit["path"].partition("/")[0] for hit in address["results"]} == {"copies"}
    assert [hit["score"] for hit in address["results"]] != [hit["score"] for hit in alone["results"]]
    assert browser.get("/search", params=asked | {"also": ["x"] * 5}).status_code == 422


def paths_of(answer):
    return [hit["path"] for hit in answer["results"]]


def test_words_decide_where_the_model_was_not_measured(questions):
    answer = questions.search(read_question("heron"), 10)
    assert answer.match != "none"
    assert answer.answers == answer.count
    assert questions.search(read_question("zebra"), 10).match == "none"


@pytest.fixture(scope="module")
def judging(tmp_path_factory, tiny_model):
    """Two domains with copies, and more notes than one ranking gives; matches of the model are of all three kinds."""
    base = tmp_path_factory.mktemp("judging")
    root, model = base / "vault", base / "judged"
    shutil.copytree(tiny_model, model)
    words = ("soil", "compost", "tomato", "winter", "river", "boat", "sail", "market", "price", "share")
    for folder in ("work", "home"):
        (root / folder).mkdir(parents=True)
        for number in range(90):
            one, other = words[number % 10], words[(3 * number + 2) % 10]
            text = f"{one} {other} bread " * (1 + number % 4) + (
                f"{folder} {number}" if number % 3 else "garden"
            )
            (root / folder / f"{number:02}.md").write_text("garden soil sail" if number < 15 else text)
    (root / "_domains.yaml").write_text("home: {legacy: true}\nwork: {path: work}\n")
    settings = Settings(vault=root, state=base / "state", embedding_model=str(model))
    index_once(Resources(settings), lambda *_: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(thresholds._BY_NAME, "judged", JUDGED)
        yield View(Resources(settings), wait_for_model=True)


JUDGED = replace(thresholds.MINILM, strong=0.9, weak=0.8, alike=None)
QUERIES = ("garden soil", "river boat sail", "17", "market price of a bread", "oven")
FILTERS = (Filters(), Filters(domains=("work",)), Filters(folders=("home",)))


@examples(max_examples=60)
@given(
    st.sampled_from(QUERIES),
    st.sampled_from(FILTERS),
    st.booleans(),
    st.integers(1, 120),
    st.integers(0, 130),
)
def test_what_a_question_finds_does_not_depend_on_how_many_notes_are_asked_for(
    judging, query, filters, fold, k, offset
):
    whole = judging.search(read_question(query, filters), 200, fold=fold)
    page = judging.search(read_question(query, filters), k, offset=offset, fold=fold)
    assert paths(page) == paths(whole)[offset : offset + k]
    assert page.match == whole.match is not None
    rated = [hit.match for hit in whole.results[offset : offset + k]]
    assert [hit.match for hit in page.results] == rated
    assert page.answers == sum(match != "none" for match in rated)
    assert page.more is (offset + k < whole.count)
    assert judging.search(read_question(query, filters), k, fold=not fold).match == whole.match


@pytest.fixture
def browser(settings):
    client = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    client.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return client


def test_a_search_takes_an_offset_within_limits(browser):
    first = browser.get("/search", params={"q": "heron", "k": 5}).json()
    second = browser.get("/search", params={"q": "heron", "k": 5, "offset": 5}).json()
    assert first["more"] is True
    assert not {hit["path"] for hit in first["results"]} & {hit["path"] for hit in second["results"]}
    assert first["index"]["generation"] == second["index"]["generation"] != ""
    for bad in ("-1", "1001", "x"):
        assert browser.get("/search", params={"q": "heron", "offset": bad}).status_code == 422


def test_the_page_folds_and_leads_on(browser):
    page = browser.get("/", params={"q": "heron", "domain": "", "folder": ""}).text
    assert re.search(r"<summary>\+\d+ alike</summary>", page)
    (link,) = re.findall(r'class="more"><a href="([^"]+offset=[^"]+)"', page)
    following = browser.get(link.replace("&amp;", "&")).text
    assert "Notes 21 to" in following
    assert "the index changed" not in following
    shown = r'<h2><a href="([^"]+)"'
    assert not set(re.findall(shown, page)) & set(re.findall(shown, following))
    assert (
        "the index changed" in browser.get("/", params={"q": "heron", "offset": 20, "generation": "x"}).text
    )
    assert "No further notes" in browser.get("/", params={"q": "heron", "offset": 900}).text
    assert browser.get("/", params={"q": "heron", "offset": "²"}).status_code == 200


def test_the_index_has_another_generation_once_a_note_changed(vault, tmp_path, tiny_model):
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))

    def generation():
        index_once(Resources(settings), lambda *_: None, confirmed=True)
        return View(Resources(settings)).index_state().generation

    seen = [generation()]
    for change in ("# A\n\nOne.", "# A\n\nTwo.", None):
        note = vault / "a.md"
        note.write_text(change) if change else note.unlink()
        seen.append(generation())
    assert len(set(seen)) == len(seen)
    assert generation() == seen[-1]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vault_sentence SET codes = NULL",
        "UPDATE vault_graph SET generation = generation + 1",
        "UPDATE vault_graph SET ranked_generation = ranked_generation + 1",
    ],
)
def test_the_index_has_another_generation_once_sentences_links_or_ranks_changed(
    vault, tmp_path, tiny_model, change
):
    (vault / "a.md").write_text("# A\n\nOne [[b]]. Two.")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    questions = View(resources)
    before = questions.index_state().generation
    (domain,) = resources.domains()
    resources.cache(domain).con.execute(change)
    assert questions.index_state().generation != before


def test_while_sentences_wait_for_vectors_the_page_and_the_status_say_that_close_notes_may_change_places(
    vault, tmp_path, tiny_model
):
    (vault / "a.md").write_text("# A\n\nOne. Two.")
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    resources = Resources(settings)
    index_once(resources, lambda *_: None)
    client = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    client.headers["Authorization"] = f"Bearer {read_token(settings.state)}"

    def said():
        foot = client.get("/").text.split('<footer id="state">')[1]
        later = client.get("/", params={"q": "one", "generation": "x"}).text
        is_said = [REFINING in foot, f"{REFINING} between pages" in later]
        in_answer = client.get("/search", params={"q": "one"}).json()["index"]["refining"]
        return [*is_said, client.get("/health").json()["refining"], in_answer]

    assert said() == [False] * 4
    (domain,) = resources.domains()
    resources.cache(domain).con.execute("UPDATE vault_sentence SET codes = NULL")
    assert said() == [True] * 4
    assert not View(resources).seen_by(Audience(resources)).index_state().refining


def test_the_index_has_another_generation_once_tags_changed_or_the_model_is_loaded(
    vault, tmp_path, tiny_model
):
    (vault / "a.md").write_text("---\nauthor: Ann\n---\nOne.")
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    questions = View(resources)
    seen = [questions.index_state().generation]
    (vault / "a.md").write_text("---\nauthor: Ann\ntags: [x]\n---\nOne.")
    index_once(resources, lambda *_: None)
    seen.append(questions.index_state().generation)
    questions.load_models()
    seen.append(questions.index_state().generation)
    assert len(set(seen)) == 3
