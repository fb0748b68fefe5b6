"""What the tools take: their arguments, with the descriptions that teach an agent how to fill them in."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.context.compress import CompressionMode
from service.usecases.schemas.context import DEFAULT_BUDGET, LARGEST_BUDGET, SMALLEST_BUDGET
from service.usecases.schemas.evidence import LONGEST_QUOTE
from service.usecases.schemas.search import LONGEST_QUERY

LONGEST_NAME = 4_096
_MOST_VALUES = 20
_MOST_PATHS = 1_000
_MOST_QUOTES = 50

Query = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Values = Annotated[list[Annotated[str, Field(min_length=1, max_length=500)]], Field(max_length=_MOST_VALUES)]
Cursor = Annotated[
    str | None,
    Field(
        max_length=1_000,
        description="the `cursor` of the last answer, for what follows; keep the other arguments",
    ),
]
_NOTE = "a path (Concepts/Moats.md), a title or alias (Moats), a wikilink ([[Moats#History]]) or a vault:// address"


class Arguments(BaseModel):
    """The arguments of a tool. An unknown name is an error, so that no misspelt one is ignored."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _read_lists(cls, given: Any) -> Any:
        """Read lists and objects that a client sends as JSON in a string, as some do."""
        if not isinstance(given, dict):
            return given
        parsed = {n for n, field in cls.model_fields.items() if get_origin(field.annotation) in (list, dict)}
        return {
            name: _read(value) if name in parsed and isinstance(value, str) else value
            for name, value in given.items()
        }


def _read(text: str) -> Any:
    if not text.startswith(("[", "{")) or text.startswith("[["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class Paged(Arguments):
    """Arguments of a tool that answers in pages."""

    cursor: Cursor = None


class Filtered(Arguments):
    """Arguments that narrow what is compared or listed, before it is ranked."""

    folder: Annotated[Values, Field(description="only notes in one of these folders")] = []
    tag: Annotated[Values, Field(description="only notes with all of these tags")] = []
    kind: Annotated[Values, Field(description="only notes of one of these kinds")] = []
    author: Annotated[Values, Field(description="only notes by one of these authors")] = []
    domain: Annotated[Values, Field(description="only these parts of the vault, as `status` names them")] = []
    has: Annotated[
        Values,
        Field(
            description="only notes with all of these: link, embed, tag, alias, property, backlink, broken-link,"
            " task, warning"
        ),
    ] = []
    since: Annotated[str | None, Field(description="only notes of that day or later: 2026-01-31")] = None
    until: Annotated[str | None, Field(description="only notes of that day or earlier")] = None
    properties: Annotated[
        dict[str, str | Values],
        Field(
            max_length=_MOST_VALUES,
            description='only notes with these properties: {"status": "open"}; of a list, one value will do',
        ),
    ] = {}
    scope: Annotated[
        Values, Field(description="only notes in all of these scopes, which the vault's owner named")
    ] = []
    section: Annotated[Values, Field(description="only text under a heading with one of these texts")] = []
    path: Annotated[
        list[Name], Field(max_length=_MOST_PATHS, description="only these notes, by their paths")
    ] = []
    min_similarity: Annotated[
        Annotated[float, Field(ge=-1, le=1)] | Literal["strong", "weak"] | None,
        Field(description="only passages as near to the question: a cosine such as 0.4, or strong or weak"),
    ] = None

    def filters(self) -> list[tuple[str, str]]:
        """Return the filters as pairs of name and value."""
        named = {
            "folder": self.folder,
            "tag": self.tag,
            "kind": self.kind,
            "author": self.author,
            "domain": self.domain,
            "has": self.has,
            "scope": self.scope,
            "since": [self.since] if self.since else [],
            "until": [self.until] if self.until else [],
            "section": self.section,
            "path": self.path,
            "min_similarity": [] if self.min_similarity is None else [_number(self.min_similarity)],
        }
        pairs = [(name, value) for name, values in named.items() for value in values]
        several = {name: [one] if isinstance(one, str) else one for name, one in self.properties.items()}
        return pairs + [(f"property.{name}", value) for name, values in several.items() for value in values]


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6f}"


class Search(Paged, Filtered):
    """The arguments of `search`."""

    query: Annotated[
        Query,
        Field(
            description='a question or words; "quoted words" must appear as written, -word leaves out notes with it;'
            " tag:x, #x, path:x, title:x, kind:x, has:task, after:2026-01-31, [property:value] are filters, -tag:x is"
            " its opposite; filters alone list the newest notes that pass"
        ),
    ]
    limit: Annotated[int, Field(ge=1, le=50, description="how many notes")] = 10


class Context(Filtered):
    """The arguments of `context`."""

    question: Annotated[Query | None, Field(description="the question, as the user asked it")] = None
    recipe: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=100,
            description="instead of a question: a recipe of the vault, which asks its own; it needs `note`",
        ),
    ] = None
    note: Annotated[
        str | None,
        Field(min_length=1, max_length=LONGEST_NAME, description=f"what the recipe is about: {_NOTE}"),
    ] = None
    budget: Annotated[
        int | None,
        Field(
            ge=SMALLEST_BUDGET,
            le=LARGEST_BUDGET,
            description=f"the most tokens of the block; {DEFAULT_BUDGET} if neither you nor the recipe says",
        ),
    ] = None
    compress: Annotated[
        CompressionMode | None,
        Field(description="shorten passages that do not fit, and mark the gaps; none if nothing is said"),
    ] = None

    @model_validator(mode="after")
    def _has_one_subject(self) -> Context:
        if (self.question is None) == (self.recipe is None):
            raise ValueError("give either `question`, or `recipe` and `note`")
        if (self.recipe is None) != (self.note is None):
            raise ValueError("`recipe` and `note` go together: the recipe's questions are about the note")
        if self.recipe is not None and self.filters():
            raise ValueError("a recipe has filters of its own; leave yours out")
        return self


class Read(Paged):
    """The arguments of `read`."""

    note: Annotated[Name, Field(description=_NOTE)]
    section: Annotated[
        str | None, Field(min_length=1, max_length=500, description="only the section under this heading")
    ] = None
    first_line: Annotated[int | None, Field(ge=1, description="only from this line on, from 1")] = None
    last_line: Annotated[int | None, Field(ge=1, description="only up to this line")] = None
    max_characters: Annotated[
        int, Field(ge=200, le=200_000, description="at most this much text; `cursor` continues")
    ] = 20_000


class Browse(Paged, Filtered):
    """The arguments of `browse`."""

    by: Annotated[
        Literal["folder", "tag", "recent", "similar", "backlinks"],
        Field(description="what to list; see the tool's description"),
    ]
    of: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=LONGEST_NAME,
            description="the folder or tag to look into; for similar and backlinks the note",
        ),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="how many entries")] = 30


class Traverse(Paged, Filtered):
    """The arguments of `traverse`."""

    note: Annotated[str | None, Field(min_length=1, max_length=LONGEST_NAME, description=_NOTE)] = None
    question: Annotated[Query | None, Field(description="what the notes on the way should be about")] = None
    depth: Annotated[int, Field(ge=1, le=3, description="how many links away from `note`")] = 2
    deep: Annotated[
        bool, Field(description="without `note`: walk further, until the question is covered; slower")
    ] = False
    limit: Annotated[int, Field(ge=1, le=100, description="how many notes")] = 30

    @model_validator(mode="after")
    def _has_a_start(self) -> Traverse:
        if self.note is None and self.question is None:
            raise ValueError(
                "give `note` to walk from it, `question` to walk from what a search finds, or both"
            )
        return self


class Quote(Arguments):
    """A quote and the note it is from."""

    note: Annotated[Name, Field(description="the path of the note, as search and read return it")]
    quote: Annotated[str, Field(min_length=1, max_length=LONGEST_QUOTE, description="the words, as quoted")]


class VerifyQuotes(Arguments):
    """The arguments of `verify_quotes`."""

    quotes: Annotated[list[Quote], Field(min_length=1, max_length=_MOST_QUOTES)]


class Propose(Arguments):
    """The arguments of `propose`."""

    note: Annotated[Name, Field(description=_NOTE)]
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]],
        Field(min_length=1, max_length=10, description="tags of the vocabulary, without #"),
    ]
    reason: Annotated[
        str, Field(max_length=300, description="why, in one sentence; the operator reads it beside the tag")
    ] = ""


class Status(Arguments):
    """The arguments of `status`."""

    note: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=LONGEST_NAME,
            description="also say whether this path is indexed, and why not",
        ),
    ] = None
