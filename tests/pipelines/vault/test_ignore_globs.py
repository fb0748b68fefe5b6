import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.vault.ignore import MOST_WILDCARD_CHARACTERS, read_globs

PIECES = [
    *("a", "b", "*", "**", "?", "[", "]", "!", "-", "\\", "/", "^", ".", "md", " ", "#", ":", "[:"),
    *("[ab]", "[!a]", "[a-c]", "[[:alpha:]]", "[^-]", "**/", "/**", "a*", "*.md", "[]-a]", "[[:digit:]x]"),
]
LINES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
FOLDERS = ["a", "b", "a b", "aab", "-", "a/b", "a/a", "b/a.md", "a/b/a", "a/b/]", "x/a/b"]
NAMES = ["a", "b", "ab", "a.md", "b.md", "-", "]", "a-b", "[", "!a", "\\", "^a", "#a", "a*", "1x"]


def ignored(globs, path):
    """Return whether a file is ignored, its folders asked before."""
    parts = path.split("/")
    places = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    return any(globs.verdict(place, is_folder=place != path) for place in places)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@given(st.lists(LINES, min_size=1, max_size=5))
@example(["**/**/]"])
@example(["a**/b"])
@example(["/a*", "a\\ "])
@settings(max_examples=150)
def test_patterns_mean_what_they_mean_to_git(lines):
    paths = [f"{folder}/{name}" if folder else name for folder in ["", *FOLDERS] for name in NAMES]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "init", "-q", folder], env=environment, check=True)
        kept = []
        for path in paths:
            if not (root / path).is_dir() and not any(p.is_file() for p in (root / path).parents):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).touch()
                kept.append(path)
        text = "\n".join(lines)
        (root / ".gitignore").write_text(text, encoding="utf-8")
        asked = subprocess.run(
            ["git", "-C", folder, "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(kept), env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    by_git = set(asked.stdout.split("\0"))
    globs = read_globs(text)
    assert {path for path in kept if ignored(globs, path)} == by_git & set(kept)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pattern",
    [
        "a*" * 12 + "b", "*?" * 40 + "x", "[a-z]*" * 40 + "X", "**/a*/" * 50 + "b", "*a" * 100 + "/" + "*a" * 100,
        "a**" * 100 + "b", "?" * 5000 + "*", "[!b]" * 200 + "*x",
    ],
)  # fmt: skip
def test_no_pattern_takes_for_ever(pattern):
    globs = read_globs("\n".join([pattern] * 20))
    for path in ["a" * 255, "/".join(["a" * 30] * 100), "a" * 4000]:
        assert not globs.verdict(path, is_folder=False)


def test_patterns_beyond_the_limit_are_refused_from_a_line_on():
    assert read_globs("*.md\n!a.md").refused is None
    many = "\n".join(
        ["keep-*", *("x" * 99 + "*" for _ in range(MOST_WILDCARD_CHARACTERS // 100 + 5)), "*.md"]
    )
    globs = read_globs(many)
    assert globs.refused is not None
    assert 0 < globs.refused < many.count("\n") + 1
    assert globs.verdict("keep-a", is_folder=False)
    assert globs.verdict("a.md", is_folder=False) is None


def test_names_without_wildcards_are_not_limited():
    globs = read_globs("".join(f"note-{n}.md\n/folder/{n}/\n" for n in range(30_000)))
    assert globs.refused is None
    assert globs.verdict("x/note-29999.md", is_folder=False)
    assert globs.verdict("folder/29999", is_folder=True)
    assert globs.verdict("folder/29999", is_folder=False) is None


def test_steps_that_are_forgotten_are_found_again():
    globs = read_globs("*a?b*\n[!a]c*")
    for n in range(40_000):
        assert globs.verdict(f"xa{chr(0x4E00 + n % 20_000)}b{n}", is_folder=False)
        assert globs.verdict(f"x{chr(0x4E00 + n % 20_000)}{n}", is_folder=False) is None


def test_a_pattern_in_decomposed_form_names_a_path_in_composed_form():
    assert read_globs("e\u0301te\u0301*").verdict("\u00e9t\u00e9.md", is_folder=False)
