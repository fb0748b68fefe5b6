"""A block of passages for a language model, as the use case, the routes and the command give it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from pipelines.errors import CacheCorruptError, DomainNotFoundError, NoteNotFoundError
from pipelines.filters import Filters
from pipelines.question import read_question
from pipelines.search.excerpts import split_sentences
from queue_config.settings import Settings
from service.app import create_app
from service.cli.main import app as commands
from service.runtime.client import read_token
from service.schemas.evidence import Cited
from service.usecases.audience import OWNER, agents
from service.usecases.context import Contexts, context_by_recipe
from service.usecases.context_passages import gather
from service.usecases.evidence import Records
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests import canaries
from tests.working import indexed
from workers.resources import Resources

PORT = 8743
RECIPE = "all: {slots: [{query: soil, neighbours: links}, {query: garden worms}]}"
TREES, PLACES = (
    ("oak", "elm", "ash", "fir", "yew"),
    ("wood", "land", "side", "hill", "gate", "well", "ford", "ley"),
)
LONG = " ".join(
    f"The garden of {tree}{place} has a bed of soil and compost, which the winter froze."
    for tree in TREES
    for place in PLACES
)
NOTES = {
    "Soil.md": "---\ndate: 2026-03-01\n---\n# Soil\n\nGarden soil feeds worms. See [[Compost]].\n\n## Clay\n\nHeavy and wet.\n",
    "Copy.md": "# Soil\n\nGarden soil feeds worms. See [[Compost]].\n",
    "Beds.md": f"# Beds\n\n## All beds\n\n{LONG}\n",
    "Compost.md": "# Compost\n\nLeaves rot in a heap.\n",
    "work/Boat.md": "# Boat\n\nThe boat sails on the river. The soil of the garden is far away.\n",
}


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return indexed(vault, tmp_path / "state", tiny_model, NOTES)


@pytest.fixture
def questions(settings):
    return View(Resources(settings), wait_for_model=True)


@pytest.fixture
def contexts(questions):
    return Contexts(questions)


@pytest.fixture
def client(settings):
    token = read_token(settings.state)
    app = create_app(settings, PORT)
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers={"Authorization": f"Bearer {token}"})


def ask(contexts, question="garden soil", *, budget=4_000, compress="none", filters=None):
    return contexts.ask(read_question(question, filters or Filters()), budget=budget, compress=compress)


def test_each_passage_says_where_it_is_and_why(contexts, settings):
    answer = ask(contexts)
    first = next(one for one in answer.passages if one.path == "Soil.md")
    assert first.locator.model_dump() == {"kind": "lines", "first": 4, "last": 6}
    assert (first.date, first.whole, first.by, first.stale) == ("2026-03-01", True, "match", False)
    assert "words of the question" in first.why
    assert "### `Soil.md:4-6`\nIn `Soil` · 2026-03-01 · " in answer.block
    assert "Garden soil feeds worms." in answer.block
    assert answer.counted_by == settings.embedding_model
    assert (answer.index.pending, answer.index.model_ready) == (0, True)
    assert answer.warnings == []


@pytest.mark.parametrize("compress", ["none", "light", "strong"])
@pytest.mark.parametrize("budget", [400, 700, 2_000, 8_000])
def test_the_budget_is_kept_and_what_was_left_out_is_counted(contexts, budget, compress):
    answer = ask(contexts, budget=budget, compress=compress)
    assert 0 < answer.tokens <= budget
    assert answer.left_out_tokens == sum(one.tokens for one in answer.left_out)
    if budget < 2_000:
        assert any(one.reason == "budget" for one in answer.left_out)
        assert f"Left out of {budget:,} tokens: " in answer.block or answer.tokens > budget - 60


def test_a_domain_sets_how_many_notes_must_be_linked_with_a_note_and_how_many_give_passages(
    contexts, questions, vault
):
    def settings(said):
        (vault / "_domains.yaml").write_text(f"vault: {{legacy: true, {said}}}\n")

    def linked():
        gathered = gather(questions, read_question("worms", Filters()), notes=2)
        return {one.path for one in gathered.linked}

    assert linked() == {"Compost.md"}
    settings("import_inject_threshold: 3")
    assert linked() == set()
    assert len({one.path for one in ask(contexts).passages}) > 1
    settings("context: {max_files: 1}")
    assert len({one.path for one in ask(contexts).passages}) == 1


STOCK = '''"""Stock of a cellar."""

import json
import math
from pathlib import Path

LITRES = 225
LOSS = 0.02


class Stock:
    """Barrels and what is in them."""

    def __init__(self, name, barrels, year, cellar):
        self.name, self.barrels, self.year, self.cellar = name, barrels, year, cellar

    def left_after(self, years):
        """Return the litres left after some years of loss."""
        # TODO: the loss depends on the cellar
        if years < 0:
            raise ValueError("years are not negative")
        return self.barrels * LITRES * math.pow(1 - LOSS, years)

    def save(self, folder):
        """Write the stock into a folder."""
        Path(folder, f"{self.name}.json").write_text(json.dumps(vars(self)))
'''


@pytest.fixture
def source_file(vault, tmp_path, tiny_model):
    pytest.importorskip("tree_sitter_python")
    notes = {"_domains.yaml": "all: {legacy: true, formats: [md, code]}\n", "code/stock.py": STOCK}
    settings = indexed(vault, tmp_path / "state", tiny_model, notes)
    return Contexts(View(Resources(settings), wait_for_model=True))


def test_a_source_file_keeps_what_it_does_and_its_imports_and_constants_are_summed_up(source_file):
    question = "left after some years of loss"
    whole = ask(source_file, question, budget=8_000)
    assert "import json\nimport math" in whole.block
    shown = [
        one.text
        for budget in range(whole.tokens - 60, whole.tokens, 5)
        for one in ask(source_file, question, budget=budget, compress="strong").passages
        if one.compressed and "[3 imports: json, math, pathlib]" in one.text
    ]
    assert shown
    for line in STOCK[STOCK.index("class") :].splitlines():
        if not line.strip().startswith(("self.name", "Path(")):
            assert all(line in text for text in shown)
    assert all("[2 constants: LITRES, LOSS]" in text and "import json" not in text for text in shown)


def test_of_a_source_file_that_does_not_fit_the_best_part_is_packed(source_file):
    answer = ask(source_file, "left after some years of loss", budget=300)
    (one,) = answer.passages
    assert one.text in STOCK
    assert one.text.splitlines()[0].strip() in STOCK.splitlines()[one.locator.first - 1]
    assert answer.tokens <= 300


def test_no_list_of_links_and_no_bare_heading_is_packed(vault, tmp_path, tiny_model):
    notes = {
        "Sleep.md": "# Sleep\n\nHow to sleep better: get up at a fixed time.\n\n## Sleep better sources\n\n- [[Tea]]\n",
        "Sleep better.md": "# How to sleep better\n",
        "Tea.md": "# Tea\n\nTea at night.\n\n## How to sleep better\n\n- [[Sleep]]\n- [a](Night.md)\n- [[Bed]]\n",
        "Links.md": "How to sleep better:\n\n- [[Sleep]]\n- [[Tea]]\n",
    }
    settings = indexed(vault, tmp_path / "state", tiny_model, notes)
    contexts = Contexts(View(Resources(settings), wait_for_model=True))
    for order in ("relevance", "density"):
        answer = contexts.ask(
            read_question("how to sleep better"), budget=2_000, compress="none", order=order
        )
        assert "get up at a fixed time" in answer.block
        assert {one.path for one in answer.passages} <= {"Sleep.md", "Tea.md"}
        assert "- [[" not in answer.block


def test_the_order_is_an_option_of_the_route_and_of_the_command(client, settings):
    given = {"q": "garden soil", "budget": 600, "order": "density"}
    got = client.get("/context", params=given).json()
    body = {"question": "garden soil", "budget": 600, "order": "density"}
    assert client.post("/context", json=body).json()["block"] == got["block"]
    where = ["--vault", str(settings.vault), "--state", str(settings.state)]
    asked = ["context", "garden soil", "--budget", "600", "--order", "density", *where]
    assert CliRunner().invoke(commands, asked).stdout.startswith("# garden soil\n")
    assert client.get("/context", params={"q": "x", "order": "size"}).status_code == 422
    done = CliRunner().invoke(commands, ["context", "--recipe", "x", "--order", "density", "Soil", *where])
    assert "leave `--order` out" in done.stderr


def test_a_copy_comes_once(contexts):
    paths = [one.path for one in ask(contexts).passages]
    assert len({"Soil.md", "Copy.md"} & set(paths)) == 1


def test_a_neighbour_along_links_comes_after_what_matches(contexts):
    answer = ask(contexts, "worms", filters=Filters(has=("link",)))
    assert "Compost.md" not in [one.path for one in answer.passages]  # it does not pass the filter
    answer = ask(contexts, '"feeds worms"')
    by = {one.path: (one.by, one.why) for one in answer.passages}
    assert by["Compost.md"][0] in ("link", "match")


def test_filters_narrow_matches_and_neighbours(contexts):
    answer = ask(contexts, filters=Filters(folders=("work",)))
    assert {one.path for one in answer.passages} == {"work/Boat.md"}
    with pytest.raises(DomainNotFoundError):
        ask(contexts, filters=Filters(domains=("nope",)))


@pytest.mark.parametrize("compress", ["none", "strong"])
def test_every_sentence_that_is_shown_can_be_quoted(contexts, questions, compress):
    answer = ask(contexts, "which beds did the winter freeze", budget=8_000, compress=compress)
    assert any(one.path == "Beds.md" for one in answer.passages)
    quotes = [
        Cited(path=one.path, quote=sentence.text)
        for one in answer.passages
        for sentence in split_sentences(one.text)
        if len(sentence.text) > 12 and "[…" not in sentence.text
    ]
    found = Records(questions).verify(quotes[:150])
    assert [one.quote for one in found.quotes if not one.citation_verified] == []


def test_what_is_compressed_says_so(contexts):
    answers = [
        ask(contexts, '"winter froze"', budget=budget, compress="strong") for budget in range(400, 700, 20)
    ]
    compressed = [one for answer in answers for one in answer.passages if one.compressed]
    assert compressed
    assert all("[…" in one.text for one in compressed)
    assert any("compressed; quote the note itself" in answer.block for answer in answers)


def test_without_the_model_the_count_is_an_estimate_and_says_so(settings):
    answer = ask(Contexts(View(Resources(settings))))
    assert (answer.counted_by, answer.match) == ("estimate", "strong")
    assert "Garden soil feeds worms." in answer.block


def test_a_search_that_fails_gives_an_empty_block_and_a_warning(contexts, monkeypatch):
    def fail(*_, **__):
        raise CacheCorruptError("the cache is damaged")

    monkeypatch.setattr(contexts.view, "page", fail)
    answer = ask(contexts)
    assert (answer.block, answer.tokens, answer.passages) == ("", 0, [])
    assert answer.warnings == ["the search failed, so the block is empty: the cache is damaged"]


def test_a_damaged_cache_gives_an_empty_block(settings):
    resources = Resources(settings)
    path = resources.state().cache_path("vault")
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(b"no database" * 1_000)
    answer = ask(Contexts(View(resources)))
    assert (answer.block, answer.passages) == ("", [])
    assert answer.warnings


def test_an_empty_vault_gives_an_empty_block(vault, tmp_path, tiny_model):
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    resources.caches()
    answer = ask(Contexts(View(resources)))
    assert (answer.block, answer.passages, answer.left_out_count) == ("", [], 0)


def test_a_changed_file_is_stale_and_a_removed_one_is_absent(contexts, vault):
    (vault / "Soil.md").write_text("changed")
    (vault / "Copy.md").unlink()
    (vault / "Compost.md").unlink()
    answer = ask(contexts)
    assert {one.path: one.stale for one in answer.passages}["Soil.md"] is True
    assert not {"Copy.md", "Compost.md"} & {one.path for one in answer.passages}


def test_while_the_vault_is_unavailable_no_passage_is_called_changed(contexts, vault):
    vault.rename(vault.with_name("moved"))
    answer = ask(contexts)
    assert answer.passages
    assert {one.stale for one in answer.passages} == {None}
    assert "is not there" in answer.index.waits


def test_get_and_post_answer_alike(client):
    given = {"q": "garden soil", "budget": 500, "compress": "light", "folder": "work"}
    got = client.get("/context", params=given).json()
    body = {"question": "garden soil", "budget": 500, "compress": "light", "filters": {"folder": ["work"]}}
    posted = client.post("/context", json=body).json()
    assert [one["path"] for one in got["passages"]] == ["work/Boat.md"]
    assert posted["block"] == got["block"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"question": ""},
        {"question": "x", "budget": 1},
        {"question": "x", "compress": "all"},
        {"question": "x", "filters": {"nope": "x"}},
        {"question": "x", "more": 1},
    ],
)
def test_a_wrong_request_is_refused(client, body):
    assert client.post("/context", json=body).status_code == 422


def test_the_command_prints_the_block(settings):
    given = ["--vault", str(settings.vault), "--state", str(settings.state)]
    done = CliRunner().invoke(commands, ["context", "garden", "soil", "--budget", "600", *given])
    assert done.exit_code == 0
    assert done.stdout.startswith("# garden soil\n")
    done = CliRunner().invoke(commands, ["context", "garden soil", "--json", "-f", "folder=work", *given])
    assert [one["path"] for one in json.loads(done.stdout)["passages"]] == ["work/Boat.md"]


def test_private_notes_are_absent_for_an_agent(tmp_path, tiny_model):
    root = tmp_path / "private"
    for path, text in (canaries.NOTES | {"_contexts.yaml": RECIPE}).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    resources = Resources(Settings(vault=root, state=tmp_path / "state2", embedding_model=str(tiny_model)))
    index_once(resources, lambda *_: None)
    questions = View(resources, wait_for_model=True)
    by_default, of_agents = Contexts(questions), Contexts(questions, agents(resources))
    for question in ("garden soil and worms", "kanarytextone", "heading"):
        owner = Contexts(questions, OWNER).ask(read_question(question), budget=8_000, compress="strong")
        assert canaries.leaks(owner.model_dump_json(), question)
        for contexts in (by_default, of_agents):
            answer = contexts.ask(read_question(question), budget=8_000, compress="strong")
            assert canaries.leaks(answer.model_dump_json(), question) == []
    for about in ("Soil.md", "Worms.md"):
        answer = context_by_recipe(of_agents, "all", about)
        assert {one.path for one in answer.passages} <= canaries.SEEN
        assert answer.passages
        assert canaries.leaks(answer.model_dump_json()) == []
    for hidden in sorted(canaries.HIDDEN):
        with pytest.raises(NoteNotFoundError) as raised:
            context_by_recipe(of_agents, "all", hidden)
        assert canaries.leaks(f"{raised.value} {raised.value.why}", hidden) == []
