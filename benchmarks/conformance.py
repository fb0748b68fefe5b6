"""Links as they are read and resolved here, against what the tests of other programs expect; for `benchmarks.links`.

Each difference comes with the rule that makes it right. A difference without a rule counts as a bug.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

from markdown_it import MarkdownIt

from pipelines.model import Link, Note
from pipelines.notes import links
from pipelines.notes.links import name_key, resolve
from pipelines.notes.markdown import parse_note, read_note

# Pictures that obsidian-export's tests had, and that are not among the data.
_PICTURES = ("white.png", "bulb.svg", "note.pdf")
_PLAIN = MarkdownIt("commonmark")


@dataclass
class Agreement:
    """What was compared with one expectation: how many cases, and which differ, by the rule that explains them."""

    of: str
    what: str
    compared: int = 0
    differ: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def differing(self) -> int:
        """How many cases differ, whether a rule explains them or not."""
        return sum(map(len, self.differ.values()))

    def compare(self, case: str, ours: object, theirs: object, rule: str = "") -> None:
        """Count a case; `rule` says why it may differ."""
        self.compared += 1
        if ours != theirs:
            self.differ[rule].append(case if rule else f"{case}: {ours!r} here, {theirs!r} there")


class Files:
    """The files that links may mean."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._named: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            self._named[name_key(path)].append(path)

    def meant(self, target: str, source: str) -> str | None:
        """Return the file that a link means, or None."""
        found = resolve(target, source, lambda name: self._named.get(name, ()))
        return found.path if found else None


class _Html(HTMLParser):
    """A page's text, and its links and pictures as (tag, destination, text)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.found: list[tuple[str, str, str]] = []
        self._open: list[tuple[int, int]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a picture, or where a link begins."""
        values = {name: value or "" for name, value in attrs}
        if tag == "img" and "src" in values:
            self.found.append((tag, unquote(values["src"]), values.get("alt", "")))
        elif tag == "a" and "href" in values:
            self._open.append((len(self.found), len(self.text)))
            self.found.append((tag, unquote(values["href"]), ""))

    def handle_endtag(self, tag: str) -> None:
        """Give the link that ends here its text."""
        if tag == "a" and self._open:
            at, start = self._open.pop()
            self.found[at] = (tag, self.found[at][1], self.text[start:])

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.text += data


def agreements(data: Path) -> Iterator[Agreement]:
    """Compare with every set of the folder `conformance`."""
    yield from _quartz(_json(data / "quartz" / "link_cases.json"))
    yield from _obsidiantools(data / "obsidiantools")
    yield _obsidian_export(data / "obsidian-export")
    yield _commonmark(_json(data / "commonmark" / "spec.json"))


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


# Quartz makes web sites of vaults. A case is a link on a page, and the URL that it becomes.


def _quartz(data: Mapping[str, Any]) -> Iterator[Agreement]:
    pages = {slug if PurePosixPath(slug).suffix else f"{slug}.md" for slug in data["all_slugs"]}
    files = Files(pages)
    for strategy in ("shortest", "absolute", "relative"):
        agreement = Agreement("Quartz", f"files meant, strategy `{strategy}`")
        for case in (case for case in data["cases"] if case["strategy"] == strategy):
            target = case["link"].partition("#")[0]
            slug = _slug(case["from"], case["expected_url"])
            theirs = next((page for page in (slug, f"{slug}.md") if page in pages), None)
            rule = ""
            if target.endswith("/"):
                rule = "a folder's URL is its index page; in Obsidian a link to a folder means no file"
            elif strategy == "relative" and not target.startswith("."):
                rule = "Quartz reads it from the page's folder; in Obsidian the path from the root goes first"
            ours = files.meant(target, f"{case['from']}.md")
            agreement.compare(f"`{case['link']}` in {case['from']}", ours, theirs, rule)
        yield agreement


def _slug(source: str, url: str) -> str:
    """Return the page that a browser opens for a URL on a page."""
    parts = source.split("/")[:-1]
    path = url.partition("#")[0]
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join([*parts, "index"] if path.endswith("/") else parts)


# obsidiantools analyses vaults. Its tests expect counts and lists of a small vault and of single texts.


def _obsidiantools(folder: Path) -> Iterator[Agreement]:
    expected = _json(folder / "expected_vault_stub.json")
    counts = expected["expected_metadata_dict"]
    paths = {name: path for name, path in counts["rel_filepath"].items() if path}
    with _links_out_too():
        notes = _notes(folder / "vault-stub")
        yield _stub_links(notes, counts)
        for what, index in (
            ("tags", "expected_tags_main_only_index"),
            ("embeds", "expected_embedded_files_index"),
            ("frontmatter", "expected_front_matter_index"),
            ("links out", "expected_md_links_index"),
        ):
            agreement = Agreement("obsidiantools", f"vault: {what}")
            for name, wanted in expected[index].items():
                ours = _read(notes[paths[name]], what)
                agreement.compare(name, ours, wanted, _template_rule(notes[paths[name]]))
            yield agreement
        yield from _general(folder, _json(folder / "expected_general.json"))


def _links_out_too() -> Any:
    """Let the parser keep the links that lead out of the vault."""
    return patch.object(links, "_EXTERNAL", re.compile(r"(?!)"))


def _notes(folder: Path) -> dict[str, Note]:
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.md"))}
    return {key: read_note(key, path.read_bytes()) for key, path in paths.items()}


def _stub_links(notes: Mapping[str, Note], counts: Mapping[str, Any]) -> Agreement:
    agreement = Agreement("obsidiantools", "vault: wikilinks and backlinks of each name")
    files = Files(notes)
    backlinks: Counter[str] = Counter()
    for path, note in notes.items():
        wikilinks = [link.target for link in note.links if link.kind == "wikilink"]
        backlinks.update(files.meant(target, path) or target.removesuffix(".md") for target in wikilinks)
    for name, path in counts["rel_filepath"].items():
        agreement.compare(f"backlinks of {name}", backlinks[path or name], counts["n_backlinks"][name])
        if path:
            targets = _read(notes[path], "wikilinks")
            canvas = any(str(target).endswith(".canvas") for target in targets)
            rule = "it leaves out links to canvases; in Obsidian they are links like others" if canvas else ""
            agreement.compare(f"wikilinks in {name}", len(targets), counts["n_wikilinks"][name], rule)
    return agreement


def _read(note: Note, what: str) -> Any:
    """Return what a note holds, in the form in which obsidiantools says it."""
    out = [_destination(link) for link in note.links if link.kind == "markdown"]
    return {
        "wikilinks": [link.target for link in note.links if link.kind == "wikilink"],
        "embeds": [link.target for link in note.links if link.kind == "embed"],
        "links out": out,
        "unique_md_links": list(dict.fromkeys(out)),
        # It keeps the first part of a nested tag, and each tag as often as it is written.
        "tags": [tag.partition("/")[0] for tag in note.tags],
        "tags_nested": list(note.tags),
        "frontmatter": dict(note.frontmatter),
        "body_is_empty": not note.text[note.body_start :].strip(),
        "not_wikilinks": [],
        "readable_lines": [link.text for link in note.links],
    }[what]


def _destination(link: Link) -> str:
    return f"{link.target}#{link.fragment}" if link.fragment else link.target


def _template_rule(note: Note) -> str:
    if any(warning.startswith("unreadable frontmatter") for warning in note.warnings):
        return (
            "it reads a template's `{{...}}` as text; here a block that is no YAML is kept as text, and said"
        )
    return ""


def _general(folder: Path, cases: Sequence[Mapping[str, Any]]) -> Iterator[Agreement]:
    found: dict[str, Agreement] = {}
    for case in cases:
        name = str(case.get("file") or case.get("case") or case["inline"])
        text = case.get("markdown") or case.get("inline") or (folder / name).read_text("utf-8")
        note = parse_note(name, text)
        for what in sorted(case.keys() - {"file", "case", "markdown", "inline"}):
            agreement = found.setdefault(what, Agreement("obsidiantools", f"texts: {what}"))
            ours, theirs = _read(note, what), case[what]
            if what == "not_wikilinks":
                ours, theirs = [link.target for link in note.links if link.target in theirs], []
            agreement.compare(name, ours, theirs, _template_rule(note))
    yield from found.values()


# obsidian-export rewrites a vault as CommonMark, with embedded notes in place. The comparison covers the links that
# its tests expect of each note: text, file and heading.


def _obsidian_export(folder: Path) -> Agreement:
    agreement = Agreement("obsidian-export", "notes: links with the text shown, file and heading")
    for written in sorted((folder / "expected").rglob("*.md")):
        vault, _, path = written.relative_to(folder / "expected").as_posix().partition("/")
        notes = _notes(folder / "input" / vault)
        if path not in notes:  # the same note, exported otherwise
            path = next((p for p in notes if PurePosixPath(p).name == written.name), "Note.md")
        files = Files([*notes, *_PICTURES])
        ours = list(_exported(notes, files, path, path, ()))
        # CommonMark has no footnotes: a note's text would be the destination of a link.
        page = _Html(_PLAIN.render(re.sub(r"(?m)^\[\^\w+\]:.*", "", written.read_text("utf-8"))))
        theirs = [
            (text, files.meant(f"./{where}", path) or where, slug)
            for _, href, text in page.found
            for where, _, slug in [href.partition("#")]
        ]
        alone = "exported alone: a link to a note that is left out is only text there"
        agreement.compare(f"{vault}/{path}", ours, theirs, alone if vault == "single-file" else "")
    return agreement


def _exported(
    notes: Mapping[str, Note], files: Files, path: str, root: str, above: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """Yield the links of a note and of the notes embedded in it, as that program writes them."""
    for link in notes[path].links:
        meant = files.meant(link.target, path)
        if link.kind == "embed" and meant is not None and meant in notes:
            if meant not in (*above, path):
                yield from _exported(notes, files, meant, root, (*above, path))
                continue
        elif link.kind == "embed" and meant is None:
            continue  # it leaves them out
        yield _shown(link), meant or link.target, re.sub(r"\W+", "-", link.fragment.lower()).strip("-")


def _shown(link: Link) -> str:
    """Return what Obsidian shows for a link: ` > ` for the `#` of one that has no text of its own."""
    text = link.text
    if link.kind != "markdown" and text == _destination(link):
        text = " > ".join(filter(None, text.split("#")))
    return _Html(_PLAIN.renderInline(text)).text


# CommonMark's examples: where links and pictures are, and where none are.


def _commonmark(examples: Sequence[Mapping[str, Any]]) -> Agreement:
    agreement = Agreement("CommonMark", "examples: links and pictures, with destinations")
    with _links_out_too():
        for example in examples:
            note = parse_note("note.md", example["markdown"])
            ours = Counter(_element(link) for link in note.links)
            theirs = Counter((tag, where) for tag, where, _ in _Html(example["html"]).found)
            rule = _commonmark_rule(example["markdown"], theirs - ours, ours - theirs)
            agreement.compare(str(example["example"]), dict(ours), dict(theirs), rule)
    return agreement


def _element(link: Link) -> tuple[str, str]:
    kind = {"markdown": "a", "embed": "img"}.get(link.kind, link.kind)
    return kind, _destination(link)


def _commonmark_rule(text: str, missing: Counter[tuple[str, str]], extra: Counter[tuple[str, str]]) -> str:
    if extra:
        return "`[[...]]` is a wikilink before it is anything else" if "[[" in text else ""
    rules = {_missing_rule(text, tag, where) for tag, where in missing}
    return "; ".join(sorted(rules)) if all(rules) else ""


def _missing_rule(text: str, tag: str, where: str) -> str:
    if not where:
        return "an empty destination names no file"
    if f"<{where.removeprefix('mailto:')}>" in text:
        return "an address in `<>` has a scheme or is one of mail: it names no file"
    return "HTML is not read for links" if re.search(rf"<{tag}\s", text) else ""
