"""What a contributor, a public CI and a release rely on agrees with the files that it repeats."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def sections():
    return re.findall(r"^## \[(.+?)\](?: - (\S+))?$", read("CHANGELOG.md"), re.MULTILINE)


def test_the_newest_version_of_the_changelog_is_the_projects():
    assert sections()[0] == ("Unreleased", "")
    version, day = sections()[1]
    assert version == PROJECT["version"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)


def test_no_module_has_a_version_of_its_own():
    for package in ("everindex", "pipelines", "queue_config", "service", "workers"):
        for path in (ROOT / package).rglob("*.py"):
            assert "__version__ =" not in path.read_text(encoding="utf-8"), path


def test_the_changelog_knows_six_kinds_of_change():
    kinds = set(re.findall(r"^### (.+)$", read("CHANGELOG.md"), re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_a_version_of_the_changelog_has_at_most_ten_lines():
    for version in read("CHANGELOG.md").split("\n## ")[1:]:
        name, *lines = filter(None, version.splitlines())
        assert len(lines) <= 10, name


def test_the_hooks_check_what_make_lint_checks_and_download_nothing():
    (repository,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["entry"] for hook in repository["hooks"]}
    tools = {" ".join(entry.removeprefix(".venv/bin/").split()[:2]) for entry in hooks}
    lint = read("Makefile").partition("\nlint:")[2].partition("\n\n")[0]
    for tool in tools:
        assert tool in lint
    assert len(tools) == lint.count("$(BIN)/")


def test_the_public_check_runs_what_has_run_and_claims_no_more():
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    claimed = set(jobs["check"]["strategy"]["matrix"]["python"])
    prefix = "Programming Language :: Python :: "
    assert claimed == {c.removeprefix(prefix) for c in PROJECT["classifiers"] if c.startswith(prefix)}
    table = read("docs/README.md").partition("## Tested versions")[2]
    assert claimed == set(re.findall(r"^\| Linux.*?\| (3\.\d+) \|", table, re.MULTILINE))
    commands = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    assert commands == {"make lint", "make test", ".ci/full"}


def test_every_page_of_the_documents_is_in_their_index():
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", read("docs/README.md")))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert pages - {"README.md"} <= linked


@pytest.mark.parametrize(
    "path", [".everindex/id", "examples/vault/.everindex/id", "demo-vault/x", ".hypothesis/x"]
)
def test_what_running_the_code_here_leaves_is_ignored(path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git working tree")
    done = subprocess.run(["git", "-C", ROOT, "check-ignore", "-q", path], check=False)
    assert done.returncode == 0
