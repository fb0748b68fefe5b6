"""Links, as a user at a terminal or a program asks for them, over the example vault."""

from __future__ import annotations

from .conftest import wait_for


def test_broken_links_are_listed_with_their_lines(example):
    answer = example.json("links", "--broken")
    assert {(link["path"], link["target"]) for link in answer["links"]} == {
        ("Companies/Kelvane Optics.md", "Kelvane Factory Visit"),
        ("learning/Spaced Repetition.md", "Italian Verbs"),
    }
    assert "Companies/Kelvane Optics.md:21" in example.run("links", "--broken", *example.place)


def test_links_of_one_domain_are_that_domains(example):
    answer = example.json("links", "--domain", "fitness")
    assert {link["domain"] for link in answer["links"]} == {"fitness"}
    assert all(link["meant"] for link in answer["links"])
    assert example.get("/links", domain="nowhere").status_code == 404


def test_backlinks_come_from_other_domains_too(example):
    domains = {
        other["domain"] for other in example.json("links", "learning/Spaced Repetition.md")["backlinks"]
    }
    assert {"finance", "fitness"} <= domains


def test_only_what_nothing_links_to_is_an_orphan(example):
    paths = example.json("links", "--orphans")["paths"]
    assert "Scratch.md" not in paths, "a note of another domain links to it"
    assert not [path for path in paths if path.endswith("_taxonomy.md")], "a vocabulary is no note"


def test_every_linked_note_gets_a_rank_and_a_community_by_itself(example):
    def ranked():
        return example.get("/node/Concepts/Margin of Safety.md").json()["pagerank"]

    wait_for(ranked, "the graph is ranked")
    node = example.get("/node/Concepts/Margin of Safety.md").json()
    assert node["centrality"] is not None
    assert node["community_label"]
    assert node["outlinks"]
    assert node["backlinks"]
    found = example.json("graph", "--communities")
    assert node["community"] in {c["id"] for c in found["communities"] if c["domain"] == "finance"}
    assert node["community_label"] in example.run("graph", "--communities", *example.place)


def test_a_notes_surroundings_grow_with_the_depth(example):
    near = example.get("/traverse/Concepts/Margin of Safety.md", depth=1).json()
    far = example.get("/traverse/Concepts/Margin of Safety.md", depth=2).json()
    assert near["nodes"][0]["hop"] == 0
    assert {node["hop"] for node in near["nodes"]} == {0, 1}
    assert {n["path"] for n in near["nodes"]} < {n["path"] for n in far["nodes"]}
    paths = {node["path"] for node in far["nodes"]}
    assert all(edge["source"] in paths and edge["target"] in paths for edge in far["edges"])
    assert example.get("/traverse/No such note.md").status_code == 404
    assert example.get("/traverse/Scratch.md", depth=9).status_code == 422


def test_the_picture_is_the_best_ranked_notes_and_their_edges(example):
    wait_for(lambda: example.get("/graph").json()["nodes"], "the graph is ranked")
    whole, some = example.get("/graph").json(), example.get("/graph", limit=5).json()
    assert whole["edges"]
    assert (len(some["nodes"]), some["truncated"], whole["truncated"]) == (5, True, False)
