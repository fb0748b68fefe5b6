"""The graph as a file for Gephi and notebooks: what it holds, and that nothing else is written."""

from __future__ import annotations

import json
from itertools import pairwise

import networkx as nx
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import AlreadyThereError, DomainNotFoundError
from pipelines.graph.export import as_file
from queue_config.settings import Settings
from service.cli.main import app
from service.usecases.links import export_graph
from service.usecases.maintenance import index_once
from workers.resources import Resources

READ = {
    "graphml": lambda file: nx.read_graphml(file, force_multigraph=True),
    "gexf": nx.read_gexf,
    "json": lambda file: nx.node_link_graph(json.loads(file.read_text()), edges="edges"),
}


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    (vault / "_domains.yaml").write_text("notes: {legacy: true}\nwork: {path: work}")
    (vault / "work").mkdir()
    (vault / "a.md").write_text(
        "---\ntags: [bread, soil]\n---\n# A \x07 bell & so\n\n[[b]] [[b]] ![[b]]\n\n[[plan]]"
    )
    (vault / "b.md").write_text("# B\n\n## Sources\n\n[[a]]")
    (vault / "alone.md").write_text("[[picture.png]] [[nowhere]]")
    (vault / "work" / "plan.md").write_text("# Plan")
    found = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(found, lambda *_: None)
    return found


@pytest.mark.parametrize("form", READ)
def test_a_file_holds_every_note_and_every_link_between_notes(resources, tmp_path, form):
    file = tmp_path / f"graph.{form}"
    assert export_graph(resources, file, form, None) == (4, 4)
    graph = READ[form](file)
    assert set(graph) == {"a.md", "b.md", "alone.md", "work/plan.md"}
    edges = {(s, t, e["kind"], e["weight"]) for s, t, e in graph.edges(data=True)}
    assert edges == {
        ("a.md", "b.md", "wikilink", 2),
        ("a.md", "b.md", "embed", 1),
        ("a.md", "work/plan.md", "wikilink", 1),
        ("b.md", "a.md", "citation", 1),
    }
    a, alone = graph.nodes["a.md"], graph.nodes["alone.md"]
    assert a["tags"] == (["bread", "soil"] if form == "json" else "bread, soil")
    assert a["label"] == "A \x07 bell & so" if form == "json" else "A \\x07 bell & so"
    assert (a["domain"], graph.nodes["work/plan.md"]["domain"]) == ("notes", "work")
    assert a["pagerank"] == pytest.approx(0.5)
    assert a["centrality"] == pytest.approx(0.5**0.5)
    assert (a["community"], a["community_label"]) == (1, graph.nodes["b.md"]["community_label"])
    assert not {"pagerank", "centrality", "community"} & alone.keys()


def test_one_domain_is_exported_alone(resources, tmp_path):
    assert export_graph(resources, tmp_path / "g.json", "json", "work") == (1, 0)
    with pytest.raises(DomainNotFoundError):
        export_graph(resources, tmp_path / "h.json", "json", "none")


@pytest.mark.parametrize("make", ["file", "dangling link", "folder"])
def test_what_is_there_is_never_replaced(resources, tmp_path, make):
    file = tmp_path / "graph.json"
    if make == "file":
        file.write_text("mine")
    elif make == "folder":
        file.mkdir()
    else:
        file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AlreadyThereError):
        export_graph(resources, file, "json", None)
    assert not (tmp_path / "elsewhere").exists()
    assert make != "file" or file.read_text() == "mine"


def test_the_command_needs_no_service_and_says_what_it_wrote(resources, tmp_path):
    place = ["--vault", str(resources.root), "--state", str(resources.place.state)]
    run = CliRunner().invoke(app, ["graph", "--export", str(tmp_path / "g.gexf"), *place])
    assert run.exit_code == 0
    assert (tmp_path / "g.gexf").exists()
    assert CliRunner().invoke(app, ["graph", "--export", "g.png", *place]).exit_code == 2
    assert CliRunner().invoke(app, ["graph", "--export", "g.gexf", "--open", *place]).exit_code == 2


def test_an_empty_vault_has_an_empty_graph(vault, tmp_path, tiny_model):
    empty = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    empty.caches()
    for form, read in READ.items():
        assert export_graph(empty, tmp_path / f"g.{form}", form, None) == (0, 0)
        assert len(read(tmp_path / f"g.{form}")) == 0


texts = st.text(st.characters(exclude_categories=()), max_size=6)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(texts.filter(bool), texts, st.lists(texts, max_size=2)),
        max_size=5,
        unique_by=lambda n: n[0],
    )
)
def test_any_text_can_be_written_and_no_two_notes_become_one(tmp_path_factory, notes):
    graph = nx.MultiDiGraph()
    for path, title, tags in notes:
        graph.add_node(path, title=title, label=title, tags=tags, domain="notes")
    for (source, *_), (target, *_) in pairwise(notes):
        graph.add_edge(source, target, key="wikilink", kind="wikilink", weight=1)
    file = tmp_path_factory.getbasetemp() / "any"
    for form, read in READ.items():
        file.write_bytes(as_file(graph, form))
        found = read(file)
        assert (len(found), found.number_of_edges()) == (len(graph), graph.number_of_edges())
    assert dict(found.nodes(data=True)) == dict(graph.nodes(data=True))
