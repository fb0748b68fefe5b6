"""The tool `context`: a block for a question or by a recipe, whose passages can be quoted."""

from __future__ import annotations

import re

import pytest

from pipelines.errors import CacheCorruptError
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.service.mcp.conftest import answered, complained, linked

RECIPES = """
about:
  budget: 900
  slots:
    - {name: linked, neighbours: links}
    - {name: erosion, query: "{title} erode"}
"""


def test_a_block_has_the_passages_that_answer_and_says_where_they_are(ask):
    result = ask("context", question="when do moats erode", budget=1_000)
    found = answered(result)
    assert found["match"] in ("strong", "weak")
    assert found["freshness"]["generation"]
    assert 0 < found["tokens"] <= found["budget"] == 1_000
    (first, *_) = found["passages"]
    assert (first["path"], first["by"]) == ("Concepts/Moats.md", "match")
    assert first["locator"]["kind"] == "lines"
    for one in found["passages"]:
        at = f"{one['path']}:{one['locator']['first']}-{one['locator']['last']}"
        assert f"### `{at}`" in found["block"]
    assert "Moats erode when switching costs fall." in found["block"]
    assert linked(result) == [one["uri"] for one in found["passages"]]
    assert "cursor" not in result.content[0].text


def test_what_a_block_quotes_is_verified(ask):
    found = answered(ask("context", question="when do moats erode"))
    quotes = [
        {"note": one["path"], "quote": sentence}
        for one in found["passages"]
        for sentence in re.findall(r"^[A-Z][^\n#`]*\.(?=\s)", found["block"], re.MULTILINE)
        if sentence.startswith("Moats erode") and one["path"] == "Concepts/Moats.md"
    ]
    assert quotes
    assert answered(ask("verify_quotes", quotes=quotes))["status"] == "all_verified"


def test_what_does_not_fit_is_named_with_its_size(ask, vault, resources):
    for number in range(6):
        (vault / f"M{number}.md").write_text(f"# Moat {number}\n\n" + f"A moat erodes {number} times. " * 60)
    index_once(resources, lambda *_: None)
    found = answered(ask("context", question="when do moats erode", budget=500))
    assert found["tokens"] <= 500
    assert found["truncated"]
    assert found["left_out_count"] >= len(found["left_out"]) > 0
    assert found["left_out_tokens"] >= sum(one["tokens"] for one in found["left_out"]) > 0
    left = found["left_out"][0]["uri"]
    assert answered(ask("read", note=left))["text"]


def test_a_block_is_narrowed_like_a_search(ask):
    found = answered(ask("context", question="soil and moats", folder=["Garden"], path=["Garden/Soil.md"]))
    assert {one["path"] for one in found["passages"] if one["by"] == "match"} == {"Garden/Soil.md"}
    none = answered(ask("context", question="moats", min_similarity=0.999))
    assert (none["block"], none["passages"]) == ("", [])


@pytest.mark.parametrize("note", ["Moats", "[[Moats]]", "vault://Concepts/Moats.md"])
def test_a_recipe_is_filled_from_a_note(ask, vault, note):
    (vault / "_contexts.yaml").write_text(RECIPES)
    found = answered(ask("context", recipe="about", note=note))
    assert found["budget"] == 900
    assert {"linked", "erosion"} >= {one["slot"] for one in found["passages"]}
    assert found["passages"][0]["path"] == "Concepts/Pricing.md"
    assert "Concepts/Moats.md" not in {one["path"] for one in found["passages"]}


def test_a_request_that_is_wrong_is_explained(ask, vault):
    assert "give either `question`" in complained(ask("context"))
    assert "give either `question`" in complained(ask("context", question="x", recipe="about", note="Moats"))
    assert "go together" in complained(ask("context", recipe="about"))
    assert "no recipe" in complained(ask("context", recipe="about", note="Moats"))
    (vault / "_contexts.yaml").write_text(RECIPES)
    assert "_contexts.yaml has about" in complained(ask("context", recipe="abuot", note="Moats"))
    assert "there is no note" in complained(ask("context", recipe="about", note="Nowhere at all"))
    assert "filters of its own" in complained(ask("context", recipe="about", note="Moats", tag=["x"]))
    assert "budget" in complained(ask("context", question="x", budget=1))
    assert "not a date" in complained(ask("context", question="x", since="yesterday"))


@pytest.mark.parametrize("asked", [{"question": "moats"}, {"recipe": "about", "note": "Moats"}])
@pytest.mark.parametrize("broken", ["page", "readers"])
def test_a_search_that_fails_gives_an_empty_block_and_a_warning(ask, vault, monkeypatch, asked, broken):
    def fail(*_, **__):
        raise CacheCorruptError("the cache is damaged")

    (vault / "_contexts.yaml").write_text(RECIPES)
    monkeypatch.setattr(View, broken, fail)
    found = answered(ask("context", **asked))
    assert (found["block"], found["passages"], found["tokens"]) == ("", [], 0)
    assert "the cache is damaged" in found["warnings"][-1]
