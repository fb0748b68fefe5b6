"""The pages lead to each other, as plain files and as the site that `make docs` builds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "zensical.toml"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SITE = [page for page in PAGES if page.parent in (ROOT, ROOT / "docs")]
"""The others, docs/notes and docs/howto, are for those who work on Everindex."""
FOR_USERS = [page for page in SITE if page.parent != ROOT and page.name != "README.md"]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"?(?:https?:)?//|<link[^>]+href=\"?(?:https?:)?//"
)


def anchors(page):
    """Return the names by which links reach the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in HEADING.findall(text)
    }


def pages_of(nav):
    """Yield the pages of a navigation, those of its sections included."""
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else pages_of(target)


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES])
def test_the_links_of_a_page_lead_somewhere(page):
    for target, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{target}#{anchor}"


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES])
def test_the_files_of_the_documents_that_a_page_names_exist(page):
    """A page of the site names a note by its path, because a link would lead out of the site."""
    named = re.findall(r"`(docs/[\w./-]+\.\w+)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_pages_that_code_and_deployment_name_exist():
    files = [*ROOT.glob("*file"), *(ROOT / "deploy").rglob("*.y*ml")]
    for package in ("everindex", "pipelines", "queue_config", "service", "workers"):
        files += [one for one in (ROOT / package).rglob("*") if one.suffix in (".py", ".html", ".js", ".css")]
    named = {
        name for file in files for name in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_site_is_short_enough_to_be_read():
    words = sum(len(re.findall(r"\S*\w\S*", page.read_text(encoding="utf-8"))) for page in FOR_USERS)
    assert len(FOR_USERS) <= 20
    assert words <= 25_000


def test_the_navigation_has_every_page_once():
    nav = list(pages_of(tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]["nav"]))
    assert sorted(nav) == sorted(page.relative_to(ROOT).as_posix() for page in SITE)


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("zensical") is None, reason="the site is not built: `make docs` installs zensical"
)
def test_the_site_is_built_without_a_broken_link_and_loads_nothing_from_elsewhere(tmp_path):
    shutil.copy(CONFIG, tmp_path)
    for page in [*SITE, ROOT / "LICENSE", *(ROOT / "docs").rglob("*.png"), *(ROOT / "docs").rglob("*.svg")]:
        copy = tmp_path / "build" / "pages" / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    built = list((tmp_path / "build" / "site").rglob("*.html"))
    assert len(built) >= len(SITE)
    for file in built:
        text = file.read_text(encoding="utf-8")
        assert not LOADED.search(text), file
        assert 'class="mermaid"' not in text, "a diagram would load its library from another site"
