"""Shorten source code by the source document's rules: summarise imports and the like, leave out what says least.

Of a fence without a language, nothing is summarised, and what holds a number, a link or a quotation stays.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pipelines.context.units import Unit

_TARGET, _MOST_PRUNED = 0.4, 0.7
_MODIFIERS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|override|virtual"
    r"|async|pub(?:\([^)]*\))?|unsafe|extern|const|inline|open|data|partial)\s+)*"
)
_DEFINITION = re.compile(
    rf"\s*{_MODIFIERS}(?:def|function|fn|func|fun|class|struct|interface|enum|trait|impl|type|module|namespace|record)\b"
    r"|\s*(?:export\s+)?(?:const|let|var)\s+\w+\s*=\s*(?:async\b\s*)?(?:function\b|\w+\s*=>|\([^)]*\)[^=]*=>)"
    r"|\s*\w[\w*&<>:,\[\]]*(?:\s+[\w*&<>:,\[\]]+)*\s+[\w~*&:]+\([^;={}]*\)\s*(?:const\s*)?\{?\s*\Z"
    r"|\s*@\w"
)
_BRANCH = re.compile(
    r"[\s})\]]*(?:return|raise|throw|yield|assert|if|elif|elsif|else|unless|for|foreach|while|until|do|loop|try|except"
    r"|catch|rescue|finally|ensure|with|match|switch|case|when|default|guard|select)\b|.*\{\s*\Z"
)
_TODO = re.compile(r".*\b(?:TODO|FIXME|HACK|XXX)\b|.*(?:#|//|\*)\s*NOTE\b")
_COMMENT = re.compile(r"\s*(?:#(?!include|define)|//|/?\*|--)")
_DOC_COMMENT = re.compile(r"\s*(?:///|//!)")
_DOCSTRING = re.compile(r"\s*[rRuUbBfF]{0,2}(\"\"\"|\x27\x27\x27)")
_STRUCTURE = re.compile(r"[\W_]*(?:end)?[\W_]*\Z")
_STRINGS = re.compile(r"\"(?:[^\"\\]|\\.)*\"|\x27(?:[^\x27\\]|\\.)*\x27")
_LONGEST_STATEMENT = 60  # lines
_SUMMARISED = {
    "import": (
        re.compile(
            r"\s*(?:import\b.*\bfrom|(?:const|let|var)\b.*=\s*require\()\s*[\"\x27]([^\"\x27]+)"
            r"|\s*(?:import\s+type|import\s+static|import|from|use|using|require|#\s*include)\b\s*[<\"\x27({]?\s*([\w.:/@-]*)"
        ),
        2,
    ),
    "constant": (
        re.compile(
            r"(?:export\s+)?([A-Z_][A-Z0-9_]+)\s*(?::[^=]+)?=[^=]"
            r"|\s*(?:[\w<>\[\]()]+\s+)*(?:const|static|final|val)\s+(?:[\w<>\[\]]+\s+)*([A-Z_][A-Z0-9_]+)\s*(?::[^=]+)?=[^=]"
            r"|\s*#\s*define\s+([A-Z_][A-Z0-9_]+)\s"
        ),
        1,
    ),
    "assignment": (re.compile(r"\s*(?:self|this)\.(\w+)\s*=[^=]"), 2),
    "log statement": (re.compile(r"\s*(?:(?:log|logger|logging|console)\.\w+|print\w*)\s*\("), 1),
}
"""Kinds of lines, with how many in a row stay as they are."""

_NAMES = 6
_WORD = re.compile(r"[^\W\d]\w+")


def shorten_code(units: Sequence[Unit], text: str, terms: Collection[str], *, prune: bool) -> list[Unit]:
    """Mark the lines of code that are summarised or, with `prune`, left out because they say least."""
    found: list[Unit] = []
    for (kind, _), run in groupby(units, key=lambda one: (one.kind, one.block)):
        lines = list(run)
        words = [text[one.start : one.end] for one in lines]
        stays = [False] * len(lines)
        if kind == "code":
            stays = _preserved(words)
            lines = list(_summarise(lines, words, stays))
        if kind in ("code", "plain") and prune:
            lines = _pruned(lines, words, stays, terms)
        found += lines
    return found


def is_definition(line: str) -> bool:
    """Say whether a line of source code begins a function, a class or the like."""
    return bool(_DEFINITION.match(line)) and not _BRANCH.match(line.rstrip(" {"))


def _preserved(lines: Sequence[str]) -> list[bool]:
    """Return which lines stay: definitions, branches, returns, docstrings and TODOs, each to its last line."""
    stays = [bool(_TODO.match(line) or _DOC_COMMENT.match(line) or _STRUCTURE.match(line)) for line in lines]
    inside = ""  # the mark that ends a docstring or a comment
    for number, line in enumerate(lines):
        if inside:
            stays[number], inside = True, "" if inside in line else inside
        elif opened := _DOCSTRING.match(line):
            stays[number], inside = True, "" if opened[1] in line[opened.end() :] else opened[1]
        elif line.lstrip().startswith("/**"):
            stays[number], inside = True, "" if "*/" in line else "*/"
        elif (_DEFINITION.match(line) or _BRANCH.match(line)) and _class(line) not in ("import", "constant"):
            for at in range(number, _end_of_statement(lines, number, "([", ")]")):
                stays[at] = True
            if _DEFINITION.match(line):
                _keep_comment_above(lines, number, stays)
        elif number and stays[number - 1] and _COMMENT.match(line) and _COMMENT.match(lines[number - 1]):
            stays[number] = True  # a comment goes on
    return stays


def _keep_comment_above(lines: Sequence[str], number: int, stays: list[bool]) -> None:
    while number and _COMMENT.match(lines[number - 1]):
        number -= 1
        stays[number] = True


def _end_of_statement(lines: Sequence[str], number: int, opening: str, closing: str) -> int:
    """Return the line after a statement, which goes on while a bracket is open; a longer one ends with its line."""
    depth = 0
    for at, line in enumerate(lines[number : number + _LONGEST_STATEMENT], number + 1):
        code = _STRINGS.sub("", line)
        depth += sum(code.count(one) for one in opening) - sum(code.count(one) for one in closing)
        if depth <= 0:
            return at
    return number + 1


def _classes(lines: Sequence[str], stays: Sequence[bool]) -> list[str]:
    """Return the kind of each line that can be summarised, empty for others; a statement's lines are of its kind."""
    classes = [""] * len(lines)
    number = 0
    while number < len(lines):
        name = "" if stays[number] else _class(lines[number])
        end = _end_of_statement(lines, number, "([{", ")]}") if name else number + 1
        classes[number:end] = [name] * (end - number)
        number = end
    return classes


def _class(line: str) -> str:
    return next((name for name, (shape, _) in _SUMMARISED.items() if shape.match(line)), "")


def _summarise(lines: Sequence[Unit], words: Sequence[str], stays: Sequence[bool]) -> Iterator[Unit]:
    """Replace each run of imports, constants, assignments of attributes, or log statements by a line that counts."""
    for name, run in groupby(zip(_classes(words, stays), lines, words, strict=True), key=lambda one: one[0]):
        same = [(unit, line) for _, unit, line in run]
        begins = [match for _, line in same if name and (match := _SUMMARISED[name][0].match(line))]
        if not name or len(begins) <= _SUMMARISED[name][1]:
            yield from (unit for unit, _ in same)
            continue
        note = f"# [{len(begins)} {name}s{_names(begins)}]"
        yield from (replace(unit, gone=name, note=note) for unit, _ in same)


def _names(matches: Sequence[re.Match[str]]) -> str:
    """Return the names in a run of lines, as they follow its count."""
    names = list(dict.fromkeys(name for match in matches for name in match.groups() if name))
    return (": " if names else "") + ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")


def _pruned(
    lines: Sequence[Unit], texts: Sequence[str], stays: Sequence[bool], terms: Collection[str]
) -> list[Unit]:
    """Leave out the lines with the smallest sum of inverse document frequencies, each line being a document."""
    words = [set(_WORD.findall(line.casefold())) for line in texts]
    having = Counter(word for own in words for word in own)
    worth = [sum(math.log((len(lines) + 1) / (having[word] + 1)) + 1 for word in own) for own in words]
    loose = [
        number
        for number, one in enumerate(lines)
        if not (one.gone or one.fixed or stays[number] or words[number] & set(terms))
    ]
    kept = sum(one.end - one.start for one in lines if not one.gone)
    target = _TARGET * sum(one.end - one.start for one in lines)
    gone: set[int] = set()
    for number in sorted(loose, key=lambda n: worth[n])[: math.ceil(_MOST_PRUNED * len(loose))]:
        if kept <= target:
            break
        kept -= lines[number].end - lines[number].start
        gone.add(number)
    return [replace(one, gone=one.kind) if number in gone else one for number, one in enumerate(lines)]
