"""Agents name scopes of the vault where they give filters."""

from __future__ import annotations

import pytest

SCOPES = "garden:\n  folder: Garden\ninvesting:\n  tag: investing\n"


@pytest.fixture
def scoped(vault, ask):
    (vault / "_scopes.yaml").write_text(SCOPES)
    return ask


def hits(answer):
    assert not answer.is_error, answer.content
    return {hit["path"] for hit in answer.structured_content["hits"]}


def test_a_search_keeps_to_its_scopes_and_its_filters(scoped):
    assert hits(scoped("search", query="price", scope=["investing"])) == {
        "Concepts/Moats.md",
        "Concepts/Pricing.md",
    }
    assert hits(scoped("search", query="water", scope=["garden"], tag=["garden"])) == {"Garden/Soil.md"}
    assert hits(scoped("search", query="price", scope=["garden", "investing"])) == set()
    assert "Inbox.md" in hits(scoped("search", query="dentist"))


def test_a_context_keeps_to_its_scope(scoped):
    answer = scoped("context", question="pricing power", scope=["garden"])
    assert {one["path"] for one in answer.structured_content["passages"]} <= {
        "Garden/Soil.md",
        "Garden/Pests/Slugs.md",
    }
    assert scoped("context", question="pricing power", scope=["investing"]).structured_content["passages"]


@pytest.mark.parametrize("tool", [("search", "query"), ("context", "question")])
def test_a_scope_that_is_not_there_is_answered_with_those_that_are(scoped, tool):
    answer = scoped(tool[0], **{tool[1]: "soil"}, scope=["gardens"])
    assert answer.is_error
    assert "there is no scope 'gardens'; _scopes.yaml has garden, investing" in answer.content[0].text


def test_operators_in_a_question_are_filters(ask):
    typed, beside = (
        ask("search", query="price tag:investing"),
        ask("search", query="price", tag=["investing"]),
    )
    assert typed.structured_content["hits"] == beside.structured_content["hits"]
    assert typed.structured_content["filters"] == ["tag:investing"]
    assert hits(ask("search", query="#investing")) == hits(beside)
    block = ask("context", question="pricing power folder:Garden").structured_content
    assert {one["path"] for one in block["passages"]} <= {"Garden/Soil.md", "Garden/Pests/Slugs.md"}
