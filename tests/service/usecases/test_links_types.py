"""Links with types over a vault of trades, as each door gives them: commands, HTTP, tools for agents, pages, recipes."""

from __future__ import annotations

import json

import networkx as nx
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from service.app import create_app
from service.cli.main import app as commands
from service.mcp.library import Library
from service.mcp.notes import browse
from service.mcp.schemas import Browse, Traverse
from service.mcp.search import traverse
from service.runtime.client import read_token
from service.usecases.context import Contexts, context_by_recipe
from service.usecases.links import export_graph
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.browser.serving import cookie_of
from tests.working import indexed
from workers.resources import Resources

PORT = 8747
DOMAINS = """
trading:
  legacy: true
  formats: [md, yaml]
  privacy: {tags: [secret]}
  relations:
    supplier: {inverse: customer, name: is supplied by}
    customer: {name: supplies}
    competes_with: {inverse: competes_with}
"""
RECIPES = """
biases:
  slots:
    - {name: Trades, neighbours: {type: ticker}, k: 10}
    - {name: Biases, neighbours: {type: [ticker, bias], depth: 2}, where: {kind: bias}, k: 10}
peers:
  slots: [{name: Peers, neighbours: {type: competes_with}}]
"""
NOTES = {
    "_domains.yaml": DOMAINS,
    "_contexts.yaml": RECIPES,
    "NVDA.md": '---\ncompetes_with: "[[AMD]]"\n---\n# Nvidia\n\n- supplier:: [[TSM]]\n\nAlso see [[AMD]] and [[Cash]].\n',
    "AMD.md": "# Advanced Micro Devices\n\nIt makes processors.\n",
    "TSM.md": "# TSMC\n\nIt makes wafers, for [customer:: [[AMD]]] too.\n",
    "Cash.md": "# Cash\n\nKeep some.\n",
    "Trades/T1.md": "---\nticker: '[[NVDA]]'\nbias: ['[[FOMO]]', '[[Anchoring]]']\nstrategy: '[[Breakout]]'\n---\nBought the high.\n",
    "Trades/T2.yaml": "_graph: {ticker: '[[NVDA]]', bias: '[[Loss aversion]]'}\nnote: Held a loser for far too many weeks.\n",
    "Trades/T3.md": "---\nticker: '[[AMD]]'\nbias: '[[Overconfidence]]'\n---\nSized it far too large.\n",
    "Trades/T4.md": "---\nticker: '[[NVDA]]'\nbias: '[[Revenge]]'\ntags: [secret]\n---\nDoubled after the loss.\n",
    "Biases/FOMO.md": "---\nkind: bias\n---\n# FOMO\n\nThe fear of missing out.\n",
    "Biases/Anchoring.md": "---\nkind: bias\n---\n# Anchoring\n",
    "Biases/Loss aversion.md": "---\nkind: bias\n---\n# Loss aversion\n\nA loss hurts twice.\n",
    "Biases/Overconfidence.md": "---\nkind: bias\n---\n# Overconfidence\n\nToo sure.\n",
    "Biases/Revenge.md": "---\nkind: bias\n---\n# Revenge trading\n\nTo get it back.\n",
    "Breakout.md": "---\nkind: strategy\n---\n# Breakout\n\nA new high on volume.\n",
}


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return indexed(vault, tmp_path / "state", tiny_model, NOTES)


@pytest.fixture
def view(settings):
    return View(Resources(settings), wait_for_model=True)


@pytest.fixture
def program(settings, tmp_path):
    client = TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")
    client.headers["Authorization"] = f"Bearer {read_token(tmp_path / 'state')}"
    return client


@pytest.fixture
def run(settings, tiny_model, monkeypatch):
    monkeypatch.setenv("EMBEDDING_MODEL", str(tiny_model))

    def run(*words):
        place = ["--vault", str(settings.vault), "--state", str(settings.state)]
        result = CliRunner().invoke(commands, [*words, *place])
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def of_slot(answer, name):
    return {one.path for one in answer.passages if one.slot == name}


def test_one_recipe_answers_what_biases_affect_the_trades_of_a_ticker(view):
    answer = context_by_recipe(Contexts(view), "biases", "NVDA.md")
    assert answer.warnings == []
    assert of_slot(answer, "Trades") == {"Trades/T1.md", "Trades/T2.yaml"}, "but not T4, which is private"
    assert of_slot(answer, "Biases") == {"Biases/FOMO.md", "Biases/Anchoring.md", "Biases/Loss aversion.md"}
    (why,) = {one.why for one in answer.passages if one.path == "Biases/Loss aversion.md"}
    assert why == "linked with Trades/T2.yaml (bias)"
    peers = context_by_recipe(Contexts(view), "peers", "AMD.md")
    assert [(one.path, one.why) for one in peers.passages] == [
        ("NVDA.md", "linked with AMD.md (competes with)")
    ]
    none = context_by_recipe(Contexts(view), "peers", "Cash.md")
    assert none.warnings == [
        "a slot is left out: Cash.md has no links of the type competes_with to or from other notes"
    ]


def test_a_note_shows_the_types_of_its_links_and_from_the_other_end_their_inverses(program):
    node = program.get("/node/NVDA.md").json()
    out = {(one["path"], one["type"], one["relation"], one["count"]) for one in node["outlinks"]}
    assert out == {
        ("AMD.md", "competes_with", "competes with", 1),
        ("AMD.md", None, None, 1),
        ("TSM.md", "supplier", "is supplied by", 1),
        ("Cash.md", None, None, 1),
    }
    assert [link["type"] for link in node["links"]] == ["competes_with", "supplier", None, None]
    back = {
        (one["path"], one["type"], one["relation"]) for one in program.get("/node/TSM.md").json()["backlinks"]
    }
    assert back == {("NVDA.md", "customer", "supplies")}
    back = {(one["path"], one["type"]) for one in program.get("/node/AMD.md").json()["backlinks"]}
    assert back == {
        ("NVDA.md", "competes_with"),
        ("NVDA.md", None),
        ("TSM.md", "supplier"),
        ("Trades/T3.md", "ticker"),
    }


def test_http_filters_links_walks_and_the_map_by_type(program):
    found = program.get("/links", params={"type": ["Competes With", "supplier"]}).json()["links"]
    assert [(link["path"], link["meant"], link["type"]) for link in found] == [
        ("NVDA.md", "AMD.md", "competes_with"),
        ("NVDA.md", "TSM.md", "supplier"),
    ]
    walked = program.get("/traverse/TSM.md", params={"type": "customer", "depth": 1}).json()
    assert {node["path"] for node in walked["nodes"][1:]} == {"NVDA.md", "AMD.md"}
    ways = {node["path"]: node["edge"] for node in walked["nodes"][1:]}
    assert (ways["NVDA.md"]["type"], ways["NVDA.md"]["source"]) == ("supplier", "NVDA.md")
    assert {(edge["source"], edge["type"]) for edge in walked["edges"]} == {
        ("NVDA.md", "supplier"),
        ("TSM.md", "customer"),
    }
    assert program.get("/traverse/TSM.md", params={"type": "supplier", "depth": 1}).json()["nodes"][1:] == []
    near = program.get("/traverse/NVDA.md", params={"type": "competes_with", "q": "processors"}).json()
    assert {node["path"] for node in (*near["nodes"], *near["dropped"])} == {"NVDA.md", "AMD.md"}
    drawn = program.get("/graph", params={"type": "competes_with"}).json()
    assert {node["path"] for node in drawn["nodes"]} == {"NVDA.md", "AMD.md"}
    assert [(edge["type"], edge["relation"]) for edge in drawn["edges"]] == [
        ("competes_with", "competes with")
    ]
    assert {edge["type"] for edge in program.get("/graph").json()["edges"]} >= {None, "bias", "supplier"}
    assert program.get("/links", params={"type": "x" * 101}).status_code == 422


def test_commands_filter_by_type(run):
    assert run("links", "NVDA", "--type", "Supplier").splitlines()[0] == "NVDA.md:6 → TSM.md  is supplied by"
    assert "TSM" in run("links", "TSM", "--type", "customer")
    answer = json.loads(run("links", "AMD.md", "--type", "supplier", "--json"))
    assert [one["path"] for one in answer["backlinks"]] == ["TSM.md"]
    assert answer["outlinks"] == answer["unresolved"] == []
    listed = run("links", "--type", "bias", "--type", "strategy")
    assert "Breakout.md  strategy" in listed
    assert "6 links" in listed
    assert "NVDA.md:3  wikilink  ticker" not in run("backlinks", "NVDA")
    assert "Trades/T1.md:2  wikilink  ticker" in run("backlinks", "NVDA")
    walked = run("traverse", "NVDA", "--type", "ticker", "--type", "bias")
    assert "2 links away, cited in" not in walked
    assert "2 links away, linked from Trades/T1.md (bias)" in walked
    assert "Cash" not in walked


def test_agents_filter_by_type_and_see_no_private_note(view):
    library = Library(view)
    walked = traverse(library, Traverse(note="NVDA", type=["ticker", "bias"], depth=2))
    assert {note.path: note.type for note in walked.notes} == {
        "NVDA.md": None,
        "Trades/T1.md": "ticker",
        "Trades/T2.yaml": "ticker",
        "Biases/FOMO.md": "bias",
        "Biases/Anchoring.md": "bias",
        "Biases/Loss aversion.md": "bias",
    }
    back = browse(library, Browse(by="backlinks", of="NVDA", type=["ticker"]))
    assert {(note.path, note.type) for note in back.notes} == {
        ("Trades/T1.md", "ticker"),
        ("Trades/T2.yaml", "ticker"),
    }
    (customer,) = browse(library, Browse(by="backlinks", of="TSM")).notes
    assert (customer.path, customer.type) == ("NVDA.md", "customer")
    with pytest.raises(ValueError, match="name it in `note`"):
        Traverse(question="what biases", type=["bias"])


def test_a_setting_of_relations_takes_effect_without_indexing_anything(settings, program):
    text = (settings.vault / "_domains.yaml").read_text()
    before = program.get("/node/TSM.md").json()["indexed_at"]
    (settings.vault / "_domains.yaml").write_text(text.replace("customer", "buyer"))
    for _ in range(2):
        node = program.get("/node/TSM.md").json()
        assert [(one["type"], one["relation"]) for one in node["backlinks"]] == [("buyer", "supplies")]
        assert node["indexed_at"] == before
        index_once(Resources(settings), lambda *_: None)


def test_pages_and_exports_show_types(settings, program, tmp_path):
    del program.headers["Authorization"]
    program.headers["Cookie"] = "=".join(cookie_of(settings, PORT))
    program.headers["Accept"] = "text/html"
    page = program.get("/notes/NVDA.md").text
    to, back = page.index("Links to"), page.index("Linked from")
    assert "is supplied by" in page[to:back]
    assert "Cash" not in page[to:back], "in Markdown, untyped links are in the text"
    assert "ticker · line 2" in page[back:]
    assert "wikilink · supplies" in program.get("/ops/notes?q=TSM.md").text
    for form, read in (("json", None), ("gexf", nx.read_gexf), ("graphml", nx.read_graphml)):
        file = tmp_path / f"graph.{form}"
        export_graph(Resources(settings), file, form, None)
        graph = read(file) if read else nx.node_link_graph(json.loads(file.read_text()), edges="edges")
        edges = {(s, t, e.get("relation")) for s, t, e in graph.edges(data=True) if s == "NVDA.md"}
        assert edges == {
            ("NVDA.md", "AMD.md", "competes_with"),
            ("NVDA.md", "AMD.md", None),
            ("NVDA.md", "TSM.md", "supplier"),
            ("NVDA.md", "Cash.md", None),
        }
