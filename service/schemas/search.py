"""The schemas of search answers and of the state of the index."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.filters import Band
from pipelines.model import Locator as StoredLocator
from pipelines.model import LocatorKind, Matched
from pipelines.notes.chunk import MAX_CHARS
from pipelines.question import Question
from pipelines.search.thresholds import Match

# The place of a passage in its file, by the kind of the place.


class Lines(BaseModel):
    """The lines of a text file, from the first to the last, which are counted from 1."""

    kind: Literal["lines"] = "lines"
    first: int = Field(ge=1)
    last: int = Field(ge=1)


Locator = Lines
"""Where `read` finds a passage: lines of the note, or of the text that was read from a document."""


class Place(BaseModel):
    """Where a passage is in a document as its own program shows it: a page, rows of a sheet, a key.

    `shown` says it in words, as in `p. 3` or `[Costs] rows 21-40`. Numbers count from 1; 0: the kind has none.
    Those of a symbol are lines of the file, those of a key the line on which it begins (0 in JSON).
    """

    kind: LocatorKind
    name: str
    first: int
    last: int
    shown: str


class Part(BaseModel):
    """A part of a document, by its place as `Place.shown` says it, and the lines of its text."""

    place: str
    lines: Lines


def place_of(stored: StoredLocator | None) -> Place | None:
    """Return a stored place as answers show it."""
    return Place(**asdict(stored), shown=stored.shown()) if stored else None


LONGEST_QUERY = 4_000  # characters of a question, on every route
MOST_PHRASINGS = 4  # of a question, besides its own
Phrasing = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
MOST_RESULTS = 200
FARTHEST_OFFSET = 1_000


def example(**fields: Any) -> ConfigDict:
    """Return what gives an answer this example in `/openapi.json`."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class IndexState(BaseModel):
    """How far the index is behind: `pending` notes, `vectors_pending` passages without a vector."""

    pending: int
    oldest_pending_s: float = Field(
        description="seconds that the oldest pending note has waited; 0: none waits"
    )
    vectors_pending: int
    model_ready: bool = Field(
        description="false while the model loads; until then, search compares words only"
    )
    by_words: bool = Field(
        default=False,
        description="these domains have no model (`embedding: none`): search compares words only",
    )
    failed: dict[str, str] = Field(description="domains that cannot be searched now, each with the reason")
    generation: str = Field(
        "", description="changes whenever notes, links or vectors change, and when the model is loaded"
    )
    refining: bool = Field(
        description="sentences, or passages for a second model, still get their vectors, so that the order of close"
        " notes may change; false for those who do not see all notes"
    )
    waits: str | None = Field(description="why saves cannot be indexed now; null: they can")
    model_problem: str | None = Field(None, description="why search by meaning fails; null: no problem")
    held: str | None = Field(
        None, description="how many notes vanished at once, so that no answer has them; null: none"
    )


INDEX_EXAMPLE = {
    "pending": 0, "oldest_pending_s": 0.0, "vectors_pending": 0, "model_ready": True, "failed": {}, "waits": None,
    "refining": False, "model_problem": None, "held": None,
}  # fmt: skip
_LAYER = {"layer": "decayed", "rank": 1, "score": 0.0325, "parts": {"decay": 0.98}}


class Layer(BaseModel):
    """A hit's rank (from 1) and score in one retrieval layer, and the parts of the score."""

    layer: str
    rank: int
    score: float
    parts: dict[str, float]


class AlikeNote(BaseModel):
    """A note that is folded behind a hit because its best passage has the same text."""

    path: str
    title: str
    domain: str
    score: float


class SearchHit(BaseModel):
    """A note found by a search.

    `lines` are the first and last line (from 1) of its best passage; `marks` are ranges of `excerpt` to highlight;
    `match`: how well it answers, from its nearness in meaning and the question's words; `none`: only near.
    `stale`: the file has changed since it was indexed; null: unknown, because the vault is unavailable.
    """

    path: str
    title: str
    section: str
    excerpt: str
    text: str = Field(description="the whole passage, as written")
    marks: list[tuple[int, int]]
    ranges: list[tuple[int, int]] = Field(
        description="where the excerpt's sentences are in the note: first and last character offset, from 0"
    )
    score: float
    match: Match | None
    similarity: float | None = Field(
        None,
        description="cosine similarity of the passage and the question; null while either has no vector",
    )
    band: Band | None = Field(
        None, description="what the similarity means by the domain's model; null: below all bands, or unknown"
    )
    lines: tuple[int, int]
    place: Place | None = Field(None, description="where it is in a document that is not Markdown")
    modified: str = Field(description="when it was changed: by a property, git, or the time of its file")
    published: str | None = Field(
        None,
        description="when it was created by the note or git, as `since` compares; null: only its file's time counts",
    )
    date: str = Field(description="the day that the filters `since` and `until` compare: YYYY-MM-DD")
    kind: str | None
    properties: dict[str, Any] = Field(description="what its frontmatter says")
    stale: bool | None
    domain: str
    excerpt_by: Literal["meaning", "words"]
    signals: dict[str, float] | None = Field(
        None,
        description="what each signal adds to the score, which is their sum; null without `explain`",
    )
    layers: list[Layer] | None = Field(description="null without `explain`")
    alike: list[AlikeNote] = Field(description="notes whose best passage is a copy of this one, best first")


class TypedFilter(BaseModel):
    """An operator in the question, as it was understood: a filter, and values of which any will do."""

    filter: str
    values: list[str]
    negated: bool = Field(description="the notes that pass are left out")
    alternative: bool = Field(description="`OR` joins it to the one before")
    written: str


def typed_filters(question: Question) -> list[TypedFilter]:
    """Return the operators of a question as an answer shows them."""
    return [
        TypedFilter(
            filter=one.filter,
            values=list(one.values),
            negated=one.negated,
            alternative=one.alternative,
            written=one.written,
        )
        for one in question.operators
    ]


class UnindexedFile(BaseModel):
    """A file that is not indexed, and why."""

    path: str
    state: Literal["ignored", "parked"]
    reason: str | None


class SearchAnswer(BaseModel):
    """The answer of `GET /search`.

    `match` is the best of the first ten results'; null: there is no result, or a list by filters alone.
    """

    model_config = example(
        query="pricing power tag:moat", text="pricing power", count=1, offset=0, answers=1, more=False,
        match="strong", deep_available=False,
        order="relevance",
        filters=[
            {"filter": "tag", "values": ["moat"], "negated": False, "alternative": False, "written": "tag:moat"}
        ],
        took_ms=14.2, index=INDEX_EXAMPLE, reason=None, did_you_mean=None, not_reranked=None,
        unindexed=[], not_indexed=None,
        results=[
            {"path": "Concepts/Moats.md", "title": "Moats", "section": "What a moat is",
             "excerpt": "A moat is pricing power that lasts.", "marks": [[10, 23]], "ranges": [[220, 255]],
             "text": "A moat is pricing power that lasts.", "date": "2026-11-21", "kind": "concept",
             "properties": {"tags": ["moat"], "kind": "concept"},
             "score": 0.0244, "match": "strong", "similarity": 0.6127, "band": "primary", "lines": [12, 31],
             "modified": "2026-11-21T05:51:27+00:00",
             "published": None, "stale": False, "domain": "finance", "excerpt_by": "meaning",
             "signals": None, "layers": None, "alike": []}
        ],
    )  # fmt: skip

    query: str
    text: str = Field(description="the question without its operators")
    order: Literal["relevance", "newest"] = Field(
        description="`newest`: beside filters the question asks for nothing, so the results are the notes that pass"
    )
    filters: list[TypedFilter] = Field(description="the operators in the question: `tag:x`, `-kind:y` ...")
    results: list[SearchHit]
    count: int
    offset: int = Field(description="how many results were skipped before these")
    answers: int = Field(
        description="how many of the results have a `match` above none; others are only near"
    )
    more: bool = Field(description="whether there is another page: add `k` to `offset`")
    match: Match | None
    deep_available: bool = Field(
        description="`GET /deep` may find more: the match is weak or none, or fewer than `k` notes are above noise"
    )
    took_ms: float
    index: IndexState
    reason: str | None = Field(
        None,
        description="why quotes, minus signs and the filters beside them leave no result; null: they do not",
    )
    did_you_mean: str | None = Field(
        None,
        description="the question with misspelt words, which no note has, as notes spell them; null: there are none",
    )
    not_reranked: str | None = Field(
        None,
        description="why a second model does not rank notes again that should; null: it does, or none should",
    )
    unindexed: list[UnindexedFile] = Field(
        [],
        description="without an answer: files whose names have the words of the question, and that are not indexed",
    )
    not_indexed: str | None = Field(
        None,
        description="without an answer: how many files are ignored, and how many of which format not indexed",
    )


Value = str | bool | int | float


class SearchRequest(BaseModel):
    """The body of `POST /search`: the parameters of `GET /search`; every other key is a filter."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [{"q": "pricing power", "k": 5, "tag": "moat", "path": ["Concepts/Moats.md"]}]
        },
    )
    __pydantic_extra__: dict[str, Value | list[Value]]

    q: Phrasing
    k: int = Field(10, ge=1, le=MOST_RESULTS)
    explain: bool = False
    offset: int = Field(0, ge=0, le=FARTHEST_OFFSET)
    fold: bool = True
    also: list[Phrasing] = Field([], max_length=MOST_PHRASINGS, description="other phrasings of the question")
    rerank: bool | None = Field(
        None, description="whether second models rank notes again; null: those that take no longer than usual"
    )

    @property
    def filters(self) -> list[tuple[str, str]]:
        """Return the filters as `parse_filters` reads them: names and values, in which names may repeat."""
        given = self.__pydantic_extra__ or {}
        return [
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, values in given.items()
            for value in (values if isinstance(values, list) else [values])
        ]


class EmbedRequest(BaseModel):
    """The body of `POST /embed`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": "pricing power"}]})

    text: str = Field(
        min_length=1, max_length=MAX_CHARS, description="what the model's window does not hold has no effect"
    )
    question: bool = Field(
        default=False, description="with the prefix that the model has for questions, if it has one"
    )
    domain: str | None = Field(default=None, description="by whose model; null: by that of all domains")


class EmbedAnswer(BaseModel):
    """The answer of `POST /embed`: a vector of unit length, to be compared with those of the same model."""

    model_config = example(model="sentence-transformers/all-MiniLM-L6-v2", vector=[0.6, -0.8])

    model: str
    vector: list[float]


class Explanation(BaseModel):
    """The answer of `GET /explain`: why a note is a result of a search over all domains, or is not."""

    model_config = example(
        path="Concepts/Moats.md", domain="finance", state="indexed", result=1, score=0.9,
        signals={"meaning": 0.5, "words": 0.42, "decay": -0.02}, layers=[_LAYER], passages_nearer=0,
        cosine=0.71, bm25=8.4, depth=60, reason="it is number 1 of 84 candidates",
    )  # fmt: skip

    path: str
    domain: str | None
    state: str
    result: int | None = Field(description="its rank among the results, from 1; null: it is not a result")
    score: float | None = Field(description="null: it is not a candidate")
    signals: dict[str, float] = Field(description="what each signal adds to the score, which is their sum")
    layers: list[Layer]
    passages_nearer: int | None = Field(
        description="how many passages are nearer in meaning to the question than its nearest one; null: unknown"
    )
    cosine: float | None = Field(
        description="cosine similarity of its nearest passage and the question; null: unknown"
    )
    bm25: float | None = Field(
        description="BM25 score of its best passage; null: it contains none of the words"
    )
    depth: int = Field(description="how many passages each retriever returned")
    reason: str


class ReloadAnswer(BaseModel):
    """The answer of `POST /reload`: the numbers of new, updated, removed, unchanged and ignored notes by domain."""

    model_config = example(
        found={"finance": {"new": 1, "updated": 2, "removed": 0, "unchanged": 3_173, "ignored": 64}}
    )

    found: dict[str, dict[str, int]]


class RetryAnswer(BaseModel):
    """The answer of `POST /retry`: the paths of the parked notes that are tried again."""

    model_config = example(paths=["Mail archive.md"])

    paths: list[str]


# The schemas of notes by title, and of similar notes.


MOST_TITLES = 200
MOST_SIMILAR = 100


class TitleHit(BaseModel):
    """A note found by name: which kind of name matched, and the name as written."""

    path: str
    title: str
    domain: str
    matched: Matched
    name: str


class TitlesAnswer(BaseModel):
    """The answer of `GET /titles`."""

    query: str
    results: list[TitleHit]
    count: int


class SimilarHit(BaseModel):
    """A similar note; `cosine`, `section`, `lines` and `place` are those of its nearest passage."""

    path: str
    title: str
    domain: str
    cosine: float
    band: Band | None = Field(None, description="what the cosine means by the model; null: below all bands")
    section: str
    lines: tuple[int, int]
    place: Place | None = Field(None, description="where it is in a document that is not Markdown")


class SimilarAnswer(BaseModel):
    """The answer of `GET /similar/<path>`."""

    path: str
    results: list[SimilarHit]
    count: int
    reason: str | None = Field(description="why similar notes cannot be found now; null: they can")
