"""Tags in real notes: whether a tag is added, renamed and taken out again, and every other byte stays.

    python -m benchmarks.frontmatters [--data FOLDER] [--notes N]

The notes are N (0: all) of the Markdown files below FOLDER that begin with `---`, drawn with a fixed seed. What
counts as unchanged is not what the code says of itself: only the tag's own characters may be inserted, and
PyYAML must read every other property, and every other tag, as before.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.errors import NoteTagsError
from pipelines.tagging.note_tags import add_tags, remove_tags, rename_tags
from pipelines.vault.files import is_note

DATA = Path(__file__).parents[2] / "shared" / "data"
SEED = 6
TAG, RENAMED = "everindex-benchmark", "everindex-renamed"
_BLOCK = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*(?:\r\n?|\n)(.*?)(?<![^\r\n])---[ \t]*(?:\r\n?|\n|\Z)", re.DOTALL
)
_TAGS_LINE = re.compile(rb"^[\"']?tags[\"']?[ \t]*:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_INSERTED = (
    rb"---[\r\n]+tags:[\r\n]+  - %s[\r\n]+---[\r\n]+",
    rb" *tags:[\r\n]+ *- %s[\r\n]+",
    rb" *- %s[\r\n]+",
    rb",? ?%s",
)


def notes(data: Path, wanted: int) -> list[Path]:
    """Return notes that begin with `---`, all of them or a sample."""
    files = sorted(file for file in data.rglob("*") if is_note(file.name) and file.is_file())
    found = [file for file in files if file.read_bytes().removeprefix(b"\xef\xbb\xbf").startswith(b"---")]
    return found if wanted == 0 else random.Random(SEED).sample(found, min(wanted, len(found)))  # noqa: S311


def wrong(before: bytes, after: bytes) -> str | None:
    """Say what is wrong with a note that was given the tag, or None."""
    same = next(
        (i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(before)
    )
    size = len(after) - len(before)
    # What was inserted may begin with what stood there: the same insertion, seen a little further left.
    cuts = (
        start
        for start in range(max(0, same - size), same + 1)
        if after[:start] + after[start + size :] == before
    )
    written = TAG.encode()
    inserted = [after[start : start + size] for start in cuts]
    if not any(re.fullmatch(form % re.escape(written), cut) for form in _INSERTED for cut in inserted):
        return "more than the tag was changed"
    old, new = properties(before), properties(after)
    old_tags, new_tags = old.pop("tags", None), new.pop("tags", None)
    if list(old.items()) != list(new.items()):
        return "another property was changed"
    old_tags = old_tags if isinstance(old_tags, list) else _words(old_tags)
    new_tags = new_tags if isinstance(new_tags, list) else _words(new_tags)
    return None if new_tags == [*old_tags, TAG] else "other tags were changed"


def _words(value: object) -> list[str]:
    return str(value or "").replace(",", " ").split()


def properties(data: bytes) -> dict[str, object]:
    """Return a note's frontmatter as PyYAML reads it, names in lower case."""
    block = _BLOCK.match(data)
    values = yaml.safe_load(block[1].decode("utf-8", "replace")) if block else None
    return {str(name).lower(): value for name, value in (values or {}).items()}


def style(data: bytes) -> str:
    """Say how a note writes its tags."""
    block = _BLOCK.match(data)
    line = _TAGS_LINE.search(block[1]) if block else None
    if block is None or line is None:
        return "no `tags`"
    value = line[1].strip()
    if not value:
        return "list" if re.match(rb"\s*-", block[1][line.end() :]) else "no value"
    return "empty list" if value == b"[]" else "inline list" if value.startswith(b"[") else "words"


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="a folder of vaults")
    parser.add_argument("--notes", type=int, default=200, help="how many notes; 0: all")
    options = parser.parse_args()
    console = Console()
    if not options.data.is_dir():
        console.print(f"{options.data} is missing: give a folder of Markdown vaults with --data")
        return
    columns = ("notes", "tagged", "taken out again", "renamed", "wrong", "refused")
    counted: dict[str, Counter[str]] = {}
    reasons: Counter[str] = Counter()
    for file in notes(options.data, options.notes):
        data = file.read_bytes()
        count = counted.setdefault(style(data), Counter())
        count["notes"] += 1
        try:
            tagged = add_tags(data, [TAG])
        except NoteTagsError as error:
            count["refused"] += 1
            reasons[re.sub(r"line \d+, column \d+", "...", str(error))] += 1
            continue
        count["tagged"] += 1
        count["taken out again"] += remove_tags(tagged, [TAG]) == data
        renamed = rename_tags(tagged, {TAG: RENAMED})
        count["renamed"] += renamed == tagged.replace(TAG.encode(), RENAMED.encode())
        if found := wrong(data, tagged):
            count["wrong"] += 1
            console.print(f"WRONG: {file.relative_to(options.data)}: {found}", markup=False)
    table = Table("tags are written as", *columns)
    for name, count in sorted(counted.items()):
        table.add_row(name, *(str(count[column]) for column in columns))
    table.add_row("all", *(str(sum(count[column] for count in counted.values())) for column in columns))
    console.print(table)
    refused = Table("refused because", "notes")
    for reason, times in reasons.most_common():
        refused.add_row(escape(reason), str(times))
    console.print(refused)


if __name__ == "__main__":
    main()
