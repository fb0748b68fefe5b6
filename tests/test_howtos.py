"""Each how-to works to the letter: its blocks are applied to a copy of the repository, and what they add is run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("setting", "filter", "layer", "route", "format")
COPIED = (
    *("everindex", "pipelines", "queue_config", "service", "workers", "tests", "docs"),
    *("pyproject.toml", "README.md"),
)
RULES = (
    *(f"tests/test_{name}.py" for name in ("import_rules", "docs_commands", "docs_settings")),
    *("tests/pipelines/test_filters.py", "tests/service/cli/test_main_cli.py"),
)
TITLE = re.compile(r"^(Create|Change) `([^`]+)`:$")
FENCE = re.compile(r"^```(\w+)$")


def blocks(text):
    """Yield (verb, path, content) for each block that follows a title, and for further diffs of the same file."""
    title, inside, content = None, None, []
    for line in text.splitlines():
        if inside is not None and line == "```":
            if title:
                yield *title, "".join(content)
            inside, content = None, []
        elif inside is not None:
            content.append(f"{line}\n")
        elif found := FENCE.match(line):
            inside = found[1]
            title = title if title and (title[0] == "Change") == (inside == "diff") else None
        elif found := TITLE.match(line):
            title = (found[1], found[2])
        elif line:
            title = None


def apply(root, verb, path, content):
    """Create a file, or change the one place in a file that a diff names."""
    file = root / path
    if verb == "Create":
        assert not file.exists(), f"{path} exists already"
        file.write_text(content, encoding="utf-8")
        return
    lines = content.splitlines(keepends=True)
    assert {line[0] for line in lines} <= {" ", "-", "+"}, f"a diff of {path} has a line without a sign"
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines if line[0] != "-")
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path} has these lines {text.count(before)} times:\n{before}"
    file.write_text(text.replace(before, after), encoding="utf-8")


@pytest.fixture(scope="module")
def steps():
    text = {page: (ROOT / "docs" / "howto" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES}
    return {page: list(blocks(text[page])) for page in PAGES}


def clean_copy(folder):
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def run(folder, *command):
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_page_has_blocks_for_a_test_and_code(steps):
    for page in PAGES:
        created = [path for verb, path, _ in steps[page] if verb == "Create"]
        assert any(path.startswith("tests/") for path in created), page
        assert any(verb == "Change" for verb, _, _ in steps[page]), page


@pytest.mark.parametrize("page", PAGES)
def test_each_page_fits_a_clean_copy_of_the_files_that_it_changes(steps, page, tmp_path):
    for path in {path for verb, path, _ in steps[page] if verb == "Change"}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    for verb, path, content in steps[page]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        apply(tmp_path, verb, path, content)


@pytest.mark.slow
def test_what_the_pages_add_passes_its_tests_lint_and_the_rules_of_the_house(steps, tmp_path):
    copy = clean_copy(tmp_path)
    for page in PAGES:
        for verb, path, content in steps[page]:
            apply(copy, verb, path, content)
    tests = [path for page in PAGES for verb, path, _ in steps[page] if verb == "Create" and "tests/" in path]
    changed = {path for page in PAGES for _, path, _ in steps[page] if path.endswith(".py")}
    run(copy, "ruff", "check", "--no-cache", *sorted(changed))
    run(copy, "ruff", "format", "--no-cache", "--check", *sorted(changed))
    for made in ("commands_page", "settings_page"):
        run(copy, f"tests.{made}")
    run(copy, "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}-pt", *tests, *RULES)
