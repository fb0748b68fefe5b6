"""A `_domains.yaml` that is made to exhaust or to deceive is refused before any value is built from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.pipelines.domains import refusal


def test_a_domain_that_is_written_twice_is_refused():
    assert refusal("a: {path: x}\na: {path: y}\n").startswith("_domains.yaml:2: ")


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 500,
        "a: " + "{x: " * 5_000,
        "- " * 5_000 + "a",
        "a: &x [*x]",
        "a: &x {decay: *x}",
        "a: *nothing",
        "? [a]\n: b",
        "? {a: b}\n: c",
        "a: !!python/object/apply:os.system [id]",
        "a: \0",
        "%YAML 9.9\n---\na: {}",
        "a: {}\n---\nb: {}",
        "a: " + "9" * 10_000,
        "a: !!omap x",
        "a: {path: [x]}",
        "a: {path: {x: y}}",
        "\t",
        "a: 'x",
        "a: !!binary \u00e9",
    ],
    ids=range(19),
)
def test_a_hostile_file_is_refused(text):
    assert refusal(text).startswith("_domains.yaml:")


@pytest.mark.parametrize("text", ["!!bool x", "!!int ''", "!!float ''", "!!timestamp x"])
def test_a_tag_whose_value_does_not_fit_is_refused(text):
    assert refusal(f"a: {text}").startswith("_domains.yaml:")


PARSE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
from pipelines.domains import parse
from pipelines.errors import DomainsFileError
try:
    parse(sys.stdin.read())
except DomainsFileError as error:
    print(len(str(error)))
"""
LAUGHS = "a: [&a0 [x,x,x,x,x,x,x,x,x,x]" + "".join(
    f", &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)
)
MERGES = "a: {x0: &m0 {k: v}" + "".join(f", x{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, 32))


def parsed_apart(text):
    """Parse in a process of its own with 1 GB of memory and 3 s of computing; return the length of the refusal."""
    done = subprocess.run(
        [sys.executable, "-c", PARSE], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr[-500:]
    return int(done.stdout)


@pytest.mark.parametrize("text", [f"{LAUGHS}]", f"{MERGES}}}"], ids=["laughs", "merges"])
def test_an_alias_bomb_is_refused_in_few_words_and_little_memory(text):
    assert parsed_apart(text) < 2_000


def test_a_deep_nest_is_refused_without_reading_it_all():
    assert parsed_apart("a: " + "[" * 50_000) < 2_000
