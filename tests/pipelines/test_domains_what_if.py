"""A setting that is tried in every domain, without being written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.domains import WHOLE_VAULT, Registry, parse, with_setting
from pipelines.errors import ConfigurationError
from pipelines.model import RankFusion

TEXT = """
finance:
  legacy: true
  decay: {mode: ranked_grouped, ladder: [1.0, 0.5]}
fitness:
  lexical: {weight: 0.3}
empty:
"""


@pytest.fixture
def registry():
    return Registry(parse(TEXT), TEXT)


def test_a_setting_is_that_of_every_domain_and_the_others_stay(registry):
    before, after = registry.domains, with_setting(registry, "decay.mode=off")
    assert [domain.decay.mode for domain in after] == ["off"] * 3
    assert after[0].decay.ladder == (1.0, 0.5)
    assert after[1:] == before[1:]


def test_a_list_is_set_in_every_domain(registry):
    assert {domain.decay.ladder for domain in with_setting(registry, "decay.ladder=[1, 0.2]")} == {(1.0, 0.2)}


def test_a_setting_means_what_it_means_in_the_file(registry):
    after = with_setting(registry, "lexical.weight = 0.5")
    assert {(domain.fusion, domain.lexical_weight) for domain in after} == {("rrf", 0.5)}


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ("vocabulary=0.3", {"vocabulary": 0.3}),
        ("graph.mode=walk", {"graph_mode": "walk"}),
        ("graph.restart=0.5", {"walk_restart": 0.5}),
        ("rerank.weight=0.85", {"rerank_weight": 0.85}),
        ("rerank.depth=20", {"rerank_depth": 20}),
        ("rrf.absent=penalty", {"rrf": RankFusion("penalty")}),
        ("rrf.usage=0.2", {"rrf": RankFusion(usage=0.2)}),
        ("rrf.names=0.6", {"rrf": RankFusion(names=0.6)}),
        ("attention_half_life_days=14", {"attention_half_life_days": 14.0}),
        ("attention_session_minutes=60", {"attention_session_minutes": 60.0}),
        ("import_inject_threshold=3", {"import_inject_threshold": 3}),
    ],
)
def test_the_options_of_the_source_documents_can_be_compared(given, changed):
    (before,) = WHOLE_VAULT
    assert with_setting(Registry(WHOLE_VAULT), given) == (replace(before, **changed),)


@pytest.mark.parametrize(
    "given", ["fusion=rrf", "graph.mode=linear", "graph.mode=off", "decay.ladder=[1, 0.5]"]
)
def test_a_vault_without_domains_can_be_asked_otherwise_too(given):
    (after,) = with_setting(Registry(WHOLE_VAULT), given)
    (before,) = WHOLE_VAULT
    assert after != before
    assert replace(after, fusion=before.fusion, graph_mode=before.graph_mode, decay=before.decay) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fusion", "write SETTING=VALUE"),
        ("=rrf", "write SETTING=VALUE"),
        ("fusion=", "write SETTING=VALUE"),
        ("fusion=best", "finance.fusion: Input should be 'rrf' or 'convex'"),
        ("lexical.wieght=1", "did you mean 'weight'"),
        ("fusion.x=1", "finance.fusion"),
        ("lexical.weight=-1", "greater than or equal to 0"),
        ("lexical.weight=[1", "cannot be compared"),
        ("lexical.weight=&a [*a]", "aliases"),
        ("lexical.weight=!!timestamp x", "cannot be compared"),
        ("lexical=!!python/object:os.system x", "cannot be compared"),
        ("embedding=BAAI/bge-large-en-v1.5", "needs another index"),
        ("embedding_context=title", "needs another index"),
        ("documents={yaml: {id: name}}", "needs another index"),
        ("graph={pagerank_over: citations}", "needs another index"),
        ("path=notes", "both own"),
        ("llm=off", "no answer depends on it"),
        ("taxonomy=words.md", "no answer depends on it"),
        ("relations={up: {inverse: down}}", "no answer depends on it"),
        ("context.max_files=4", "no answer depends on it"),
        ("vocabulary=1.5", "less than or equal to 1"),
        ("graph.restart=0", "greater than 0"),
        ("attention_half_life_days=0", "greater than 0"),
        ("rrf.absent=never", "'nothing' or 'penalty'"),
        ("graph.mode=lift", "nothing to compare"),
        ("..=1", "finance."),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(registry, given, said):
    with pytest.raises(ConfigurationError) as refused:
        with_setting(registry, given)
    assert said in str(refused.value)
    assert repr(given) in str(refused.value)
