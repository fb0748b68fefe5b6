"""The shapes of the query worker's answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_QUERY = 4_000  # characters of a question, on every route
MOST_RESULTS = 200
FARTHEST_OFFSET = 1_000


def example(**fields: Any) -> ConfigDict:
    """Return what gives an answer this example in `/openapi.json`."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class IndexState(BaseModel):
    """Whether the index is behind: notes that wait, for how long, vectors owed, whether meaning is searched."""

    pending: int
    oldest_pending_s: float
    vectors_pending: int
    model_ready: bool = Field(description="false while the model loads: answers are by word alone")
    failed: dict[str, str] = Field(description="domains that cannot be asked just now, and why")
    generation: str = Field("", description="another one: what can be found has changed")
    waits: str | None = Field(description="why nothing that is saved can be indexed just now; null: it can")
    model_problem: str | None = Field(
        None, description="why nothing can be found by meaning; null: nothing is wrong"
    )


_INDEX = {
    "pending": 0, "oldest_pending_s": 0.0, "vectors_pending": 0, "model_ready": True, "failed": {}, "waits": None,
    "model_problem": None,
}  # fmt: skip
_LAYER = {"layer": "decayed", "rank": 1, "score": 0.0325, "parts": {"decay": 0.98}}


class Layer(BaseModel):
    """A hit's place and score in one layer, and what went into it."""

    layer: str
    rank: int
    score: float
    parts: dict[str, float]


class AlikeNote(BaseModel):
    """A note that is folded behind a hit, because its best passage says the same."""

    path: str
    title: str
    domain: str
    score: float


class SearchHit(BaseModel):
    """A note among the answers; `lines` are its best chunk's, `marks` are ranges in `excerpt`."""

    path: str
    title: str
    section: str
    excerpt: str
    marks: list[tuple[int, int]]
    ranges: list[tuple[int, int]] = Field(description="where its sentences stand: characters of the note")
    score: float
    lines: tuple[int, int]
    modified: str
    stale: bool
    domain: str
    excerpt_by: Literal["meaning", "words"]
    signals: dict[str, float] | None = Field(
        None,
        description="what each signal adds to the score, which is their sum; null unless `explain` was asked for",
    )
    layers: list[Layer] | None = Field(description="null unless `explain` was asked for")
    alike: list[AlikeNote] = Field(description="notes whose best passage is a copy of this one, best first")


class SearchAnswer(BaseModel):
    """The answer of `GET /search`; `match` is null where the model's cosines were never judged."""

    model_config = example(
        query="pricing power", count=1, offset=0, answers=1, more=False, match="strong", deep_available=False,
        took_ms=14.2, index=_INDEX, reason=None,
        results=[
            {"path": "Concepts/Moats.md", "title": "Moats", "section": "What a moat is",
             "excerpt": "A moat is pricing power that lasts.", "marks": [[10, 23]], "ranges": [[220, 255]],
             "score": 0.0244, "lines": [12, 31], "modified": "2026-11-21T05:51:27+00:00", "stale": False,
             "domain": "finance", "excerpt_by": "meaning", "signals": None, "layers": None,
             "alike": []}
        ],
    )  # fmt: skip

    query: str
    results: list[SearchHit]
    count: int
    offset: int = Field(description="how many results come before these")
    answers: int = Field(
        description="how many results stand up to the last that is an answer, by its match or words"
    )
    more: bool = Field(
        description="whether others follow: ask again with a larger `offset`, and the same `k`"
    )
    match: Literal["strong", "weak", "none"] | None
    deep_available: bool = Field(
        description="`GET /deep` may find more: the match is weak or none, or fewer than `k` notes are not noise"
    )
    took_ms: float
    index: IndexState
    reason: str | None = Field(
        None, description="why no note is left: the phrase that none has, or what is left out; null else"
    )


class Explanation(BaseModel):
    """The answer of `GET /explain`: why a note is among the answers to a question over all domains, or is not."""

    model_config = example(
        path="Concepts/Moats.md", domain="finance", state="indexed", result=1, score=0.9,
        signals={"meaning": 0.5, "words": 0.42, "decay": -0.02}, layers=[_LAYER], passages_nearer=0,
        cosine=0.71, bm25=8.4, depth=60, reason="it is number 1 of 84 candidates",
    )  # fmt: skip

    path: str
    domain: str | None
    state: str
    result: int | None = Field(description="its place among the results; null: it is not among them")
    score: float | None = Field(description="null: it is no candidate")
    signals: dict[str, float] = Field(description="what each signal adds to the score, which is their sum")
    layers: list[Layer]
    passages_nearer: int | None = Field(description="passages that are nearer in meaning than its best one")
    cosine: float | None = Field(description="of its passage nearest in meaning")
    bm25: float | None = Field(description="of its passage that matches best; null: it has none of the words")
    depth: int = Field(description="how many passages each retriever gave")
    reason: str


class ReloadAnswer(BaseModel):
    """The answer of `POST /reload`: what the scan found, by domain."""

    model_config = example(
        found={"finance": {"new": 1, "updated": 2, "removed": 0, "unchanged": 3_173, "ignored": 64}}
    )

    found: dict[str, dict[str, int]]


class RetryAnswer(BaseModel):
    """The answer of `POST /retry`: the parked notes that are tried again."""

    model_config = example(paths=["Mail archive.md"])

    paths: list[str]
