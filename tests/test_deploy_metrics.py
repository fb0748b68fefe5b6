"""The files for Prometheus and Grafana load, and name only existing metrics and labels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from queue_config.settings import Settings
from service.http.metrics import add_metrics
from service.usecases.operations import BOUNDS, Operations
from workers.resources import Resources

DEPLOY = Path(__file__).parents[1] / "deploy"
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "gauge": ("",)}


@pytest.fixture
def exposed(vault, tmp_path, tiny_model):
    """The names of all series that /metrics can have."""
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    resources.caches()
    app = FastAPI()
    add_metrics(app, Operations(resources, resources.queue()))
    families = text_string_to_metric_families(TestClient(app).get("/metrics").text)
    return {family.name + suffix for family in families for suffix in _SUFFIXES[family.type]}


def rules():
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard():
    return json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))


def expressions(panels):
    return [target["expr"] for panel in panels for target in panel["targets"]]


def named(expression):
    """Return the metrics that an expression names; a text in quotes is a label's value."""
    return set(re.findall(r"\beverindex_\w+", re.sub(r'"[^"]*"', '""', expression)))


def test_prometheus_scrapes_one_target_and_loads_the_alerts():
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert [(DEPLOY / file).exists() for file in config["rule_files"]] == [True]


def test_every_alert_says_what_happened_and_what_to_do():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Everindex[A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
        for text in (rule["expr"], *rule["annotations"].values()):
            assert all(text.count(a) == text.count(b) for a, b in ("()", "{}", "[]"))


def test_prometheus_can_read_every_expression():
    written = [rule["expr"] for rule in rules()]
    # What Grafana fills in.
    written += [re.sub(r"\$__\w+", "5m", one) for one in expressions(dashboard()["panels"])]
    for one in written:
        promql_parser.parse(one)


def test_the_alerts_warn_where_the_dashboard_says_that_something_is_worth_a_look():
    bounds = {
        "ManyPassages": (BOUNDS.passages_per_note, BOUNDS.notes),
        "EmbeddingSlow": (BOUNDS.embedding_s, BOUNDS.notes),
        "IndexingFails": (BOUNDS.parked_share, BOUNDS.notes),
        "SearchSlow": (BOUNDS.search_p95_s,),
        "IndexLarge": (BOUNDS.index_bytes,),
        "SpendHigh": (BOUNDS.dollars_a_day,),
        "EmbeddingSpendHigh": (BOUNDS.dollars_a_day,),
        "FallbackHigh": (BOUNDS.fallback_share, BOUNDS.notes),
    }
    for rule in rules():
        if expected := bounds.pop(rule["alert"].removeprefix("Everindex"), None):
            assert tuple(float(n) for n in re.findall(r">=? ([\d.e]+)", rule["expr"])) == expected
    assert not bounds


def test_alerts_name_only_metrics_that_there_are(exposed):
    found = set().union(*(named(rule["expr"]) for rule in rules()))
    assert len(found) >= 9
    assert found <= exposed


def test_what_must_be_noticed_has_an_alert():
    watched = set().union(*(named(rule["expr"]) for rule in rules()))
    assert watched >= {
        "everindex_watcher_probe_age_seconds",
        "everindex_oldest_pending_age_seconds",
        "everindex_notes",
        "everindex_spend_today_dollars",
        "everindex_processes",
    }


def test_the_dashboard_names_only_metrics_that_there_are(exposed):
    found = set().union(*(named(expression) for expression in expressions(dashboard()["panels"])))
    assert len(found) >= 15
    assert found <= exposed
    (instances,) = [one for one in dashboard()["templating"]["list"] if one["name"] == "instance"]
    assert named(instances["query"]) <= exposed


def test_the_dashboards_panels_are_beside_each_other():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    for panel in panels:
        assert panel["targets"]
        assert panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for expression in expressions(panels):
        assert all(expression.count(a) == expression.count(b) for a, b in ("()", "{}", "[]"))
