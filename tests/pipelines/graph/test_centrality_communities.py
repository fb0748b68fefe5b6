"""What communities are called."""

from pipelines.graph.centrality import label_communities


def test_a_label_is_what_sets_a_community_apart_tags_first():
    communities = {3: ("a", "b", "c"), 8: ("x", "y", "z")}
    tags = {
        "a": ("note", "garden", "soil"),
        "b": ("note", "garden"),
        "c": ("note", "Garden", "soil"),
        "x": ("note", "boat"),
        "y": ("note",),
        "z": ("note", "boat"),
    }
    titles = {
        "a": "Compost",
        "b": "Compost tea",
        "c": "Rain",
        "x": "River trip",
        "y": "River",
        "z": "The sea",
    }
    assert label_communities(communities, titles, tags) == {3: "garden, soil, Compost", 8: "boat, River"}


def test_a_label_has_two_terms_of_any_kind_where_nothing_sets_it_apart():
    communities = {1: ("a", "b"), 2: ("c", "d")}
    titles = {"a": "The apple", "b": "On bread", "c": "Apple", "d": "2024-01-01"}
    assert label_communities(communities, titles, {}) == {1: "bread, Apple", 2: "Apple"}


def test_a_label_says_nothing_twice():
    tags = {"a": ("food/bread", "bread"), "b": ("food/bread", "bread"), "x": (), "y": ()}
    titles = {"a": "Bread", "b": "bread oven", "x": "Sea", "y": "Sea"}
    found = label_communities({1: ("a", "b"), 2: ("x", "y")}, titles, tags)
    assert found == {1: "bread, food/bread", 2: "Sea"}


def test_a_community_without_words_is_named_as_its_first_file():
    assert label_communities({1: ("days/2024-01-01.md", "days/2024-01-02.md")}, {}, {}) == {1: "2024-01-01"}
    assert label_communities({}, {}, {}) == {}
