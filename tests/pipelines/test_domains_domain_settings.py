"""Each key of a domain in `_domains.yaml`: what it means, and which values are refused."""

from __future__ import annotations

import pytest

from pipelines.domains import parse
from pipelines.errors import DomainsFileError
from pipelines.model import DateOrder, Decay, Domain, Kind

from .domains import FULL, refusal


def test_every_key_is_read():
    assert parse(FULL) == (
        Domain(
            slug="finance",
            path="",
            legacy=True,
            taxonomy="_taxonomy.md",
            review_queue="_review-queue.md",
            embedding="BAAI/bge-large-en-v1.5",
            embedding_dim=1024,
            decay=Decay(
                mode="ranked_grouped",
                ladder=(1.0, 0.6, 0.45, 0.35, 0.25),
                recency_boost_days=30,
                recency_boost_amount=0.05,
                kind_overrides={"Filings": Kind((1.0, 0.6))},
            ),
            fusion="rrf",
            lexical_weight=0.5,
        ),
        Domain(slug="fitness", path="fitness", fusion="rrf", lexical_weight=0.05),
        Domain(
            slug="deep",
            path="work/deep",
            taxonomy="tags.md",
            review_queue="queue.md",
            sentences=False,
        ),
    )


@pytest.mark.parametrize("text", ["a:", "a: {}", "a: ~"])
def test_a_domain_without_settings_owns_the_folder_of_its_name_and_has_the_defaults(text):
    assert parse(text) == (Domain(slug="a", path="a"),)


@pytest.mark.parametrize("off", ["off", '"off"', "Off", "false", "no"])
def test_a_bare_off_is_off(off):
    assert parse(f"a: {{decay: {{mode: {off}}}}}")[0].decay.mode == "off"


@pytest.mark.parametrize("slug", ["finance", "my-notes_2", "日记", "_x"])
def test_a_slug_has_letters_digits_hyphens_and_underscores(slug):
    assert parse(f"{slug}: {{}}")[0].slug == slug


@pytest.mark.parametrize("slug", ["a b", "a/b", "..", "'-'", "''", "1", "off", "~", "a.b", "2026-01-01"])
def test_any_other_slug_is_refused(slug):
    assert "a domain is named with letters, digits" in refusal(f"{slug}: {{}}")


@pytest.mark.parametrize("key", ["taxonomy", "review_queue"])
@pytest.mark.parametrize("name", ["../x.md", "/etc/x.md", "''"])
def test_a_domains_own_files_must_lie_inside_it(key, name):
    assert key in refusal(f"a:\n  {key}: {name}\n")


@pytest.mark.parametrize(
    "setting", ["embedding_dim: true", "lexical: {weight: true}", "decay: {recency_boost_days: on}"]
)
def test_a_truth_value_is_no_number(setting):
    assert "_domains.yaml:1: " in refusal(f"a: {{{setting}}}")


@pytest.mark.parametrize("key", ["path", "taxonomy", "review_queue"])
@pytest.mark.parametrize("value", ["x\\0y", "x\\uD800y", "../x", "a/../../x"])
def test_a_path_that_cannot_be_one_inside_the_vault_is_refused(key, value):
    assert "must be a path inside the vault" in refusal(f'a: {{{key}: "{value}"}}\n')


def test_a_name_that_no_file_can_bear_is_refused():
    assert "too long" in refusal("a" * 151 + ": {}\n")
    assert parse("a" * 150 + ": {}\n")


def test_the_error_for_a_key_in_the_wrong_section_says_where_it_belongs():
    assert "a.folders: a key of `privacy:`, unknown here" in refusal("a:\n  folders: [private]\n")


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("types: [report]", "types: Input should be a valid dictionary (got ['report'])"),
        ("types: {report: {sections: thesis}}", "types.report.sections: Input should be a valid list"),
        ("types: {report: {units: [1]}}", "types.report.units: Input should be a valid dictionary"),
        ("skip: _meta", "skip: Input should be a valid list (got '_meta')"),
        ("kind: [type]", "kind: Input should be a valid string"),
        ("typs: {}", "typs: unknown key; did you mean 'types'?"),
    ],
)
def test_the_options_of_records_are_checked_before_any_is_read(stated, message):
    assert f"a.documents.yaml.{message}" in refusal(f"a:\n  documents: {{yaml: {{{stated}}}}}\n")


def test_a_relation_has_an_inverse_both_ways_and_a_name():
    (domain,) = parse(
        "a:\n  relations:\n    Supplied By: {inverse: Supplies, name: is supplied by}\n    rival: {inverse: rival}\n"
        "    up: {inverse: down}\n    down: {inverse: below}"
    )
    seen = {
        kind: domain.relations.back(kind)
        for kind in ("supplied_by", "supplies", "rival", "up", "down", "x", None)
    }
    assert seen == {
        "supplied_by": "supplies",
        "supplies": "supplied_by",
        "rival": "rival",
        "up": "down",
        "down": "below",
        "x": "x",
        None: None,
    }
    assert [domain.relations.name(kind) for kind in ("supplied_by", "as_is", None)] == [
        "is supplied by",
        "as is",
        None,
    ]


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("[supplier]", "a.relations: Input should be a valid dictionary"),
        ("{supplier: customer}", "a.relations.supplier: "),
        (
            "{supplier: {inverses: customer}}",
            "a.relations.supplier.inverses: unknown key; did you mean 'inverse'?",
        ),
        ("{supplier: {name: ''}}", "a.relations.supplier.name: String should have at least 1 character"),
        ("{supplier: {inverse: ' '}}", "a.relations: a type has 1 to 100 characters, not ' '"),
        (f"{{{'x' * 101}: {{inverse: y}}}}", "a.relations: a type has 1 to 100 characters, not 'xxxxxxx"),
        (
            "{" + ", ".join(f"k{n}: {{}}" for n in range(101)) + "}",
            "a.relations: Dictionary should have at most 100",
        ),
    ],
)
def test_a_relation_that_is_none_is_refused(stated, message):
    assert message in refusal(f"a:\n  relations: {stated}\n")


def test_a_preset_gives_the_source_documents_stack():
    (domain,) = parse("vault: {legacy: true, preset: source}")
    assert domain == Domain(
        "vault",
        "",
        legacy=True,
        embedding="BAAI/bge-large-en-v1.5",
        fusion="rrf",
        lexical_weight=0.5,
        pagerank_over="citations",
        central_over="links",
        communities="louvain",
        graph_mode="linear",
    )


def test_what_is_written_beside_a_preset_takes_precedence_key_by_key():
    (domain,) = parse(
        "fitness: {preset: source, embedding: x/y, lexical: {weight: 0.05}, graph: {communities: leiden}}"
    )
    assert (domain.embedding, domain.lexical_weight, domain.communities) == ("x/y", 0.05, "leiden")
    assert (domain.fusion, domain.graph_mode, domain.pagerank_over) == ("rrf", "linear", "citations")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n  preset: other", 2),
        ("a:\n  preset: [source]", 2),
        ("a:\n  preset: source\n  graph:\n    communities: girvan", 4),
        ("a:\n  preset: source\n  graph: louvain", 3),
        ("a:\n  preset: source\n  graph:\n    centrel_over: all", 4),
    ],
)
def test_what_is_wrong_beside_a_preset_is_named_with_its_line(text, line):
    with pytest.raises(DomainsFileError, match=rf":{line}: a\."):
        parse(text)


def test_a_domain_has_its_own_threshold_for_proposals():
    (domain,) = parse("notes:\n  review: {threshold: 0.6}\n")
    assert domain.threshold == 0.6
    (domain,) = parse("notes:\n  legacy: true\n")
    assert domain.threshold is None


@pytest.mark.parametrize("value", ["0", "1.1", "-1", "on", "high"])
def test_a_threshold_lies_above_0_and_is_at_most_1(value):
    assert ":2: notes.review.threshold: " in refusal(f"notes:\n  review: {{threshold: {value}}}\n")


def test_a_domain_chooses_where_its_dates_are_looked_up():
    (chosen,) = parse("a: {dates: {created: [born, file name, git]}}")
    assert chosen.dates == DateOrder(created=("born", "file name", "git"))


@pytest.mark.parametrize("value", ["[]", "created", "['']", "[[created]]"])
def test_an_order_of_dates_is_a_list_of_names(value):
    assert refusal(f"a:\n  dates:\n    created: {value}\n").startswith("_domains.yaml:3: a.dates.created")


def test_an_unknown_kind_of_date_is_refused():
    assert "unknown key" in refusal("a: {dates: {published: [date]}}")


def test_a_second_model_has_the_source_documents_weight_and_as_many_notes_as_it_can_rank():
    (domain,) = parse("a: {rerank: {model: multilingual-e5-small}}")
    assert (domain.rerank_model, domain.rerank_depth, domain.rerank_weight) == (
        "multilingual-e5-small",
        None,
        0.0,
    )
    (domain,) = parse("a: {rerank: {model: x/y, depth: 30, weight: 0.85}}")
    assert (domain.rerank_model, domain.rerank_depth, domain.rerank_weight) == ("x/y", 30, 0.85)
    assert parse("a: {}")[0].rerank_model is None


@pytest.mark.parametrize(
    "stated", ["model: ''", "depth: 1", "depth: 201", "weight: 1.1", "weight: true", "modell: x"]
)
def test_what_no_second_model_can_do_is_refused(stated):
    assert "a.rerank." in refusal(f"a: {{rerank: {{{stated}}}}}")
