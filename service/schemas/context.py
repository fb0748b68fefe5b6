"""The schemas of a block of passages for a language model: the request and the answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.context.block import Order, Reason
from pipelines.context.compress import CompressionMode
from service.schemas.search import INDEX_EXAMPLE, LONGEST_QUERY, IndexState, Locator, TypedFilter, example

DEFAULT_BUDGET = 8_000
SMALLEST_BUDGET, LARGEST_BUDGET = 200, 200_000
DEFAULT_COMPRESSION: CompressionMode = "none"
"""Off, by the figures in docs/notes/context.md."""

DEFAULT_ORDER: Order = "relevance"
"""By the figures in docs/notes/context.md, too."""

_MOST_FILTERS = 50

Budget = Annotated[
    int,
    Field(ge=SMALLEST_BUDGET, le=LARGEST_BUDGET, description="the most tokens that the block may have"),
]
Question = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]


class ContextRequest(BaseModel):
    """The body of `POST /context`."""

    model_config = ConfigDict(extra="forbid")

    question: Question
    budget: Budget = DEFAULT_BUDGET
    compress: CompressionMode = DEFAULT_COMPRESSION
    order: Order = DEFAULT_ORDER
    filters: Annotated[
        dict[str, str | list[str]],
        Field(max_length=_MOST_FILTERS, description="filters by name, each with a value or several"),
    ] = {}

    @property
    def given_filters(self) -> list[tuple[str, str]]:
        """Return the filters as `parse_filters` reads them: names and values, in which names may repeat."""
        several = {name: [one] if isinstance(one, str) else one for name, one in self.filters.items()}
        return [(name, value) for name, values in several.items() for value in values]


class ContextPassage(BaseModel):
    """A passage in the block. Its text can be quoted from `path`; `POST /verify` compares with the note itself."""

    path: str
    domain: str
    title: str
    section: str
    locator: Locator
    place: str | None = Field(
        None, description="where it is in a document that is not Markdown, as in `p. 3`"
    )
    date: str = Field(description="the day that the filters `since` and `until` compare: YYYY-MM-DD")
    why: str = Field(description="why it is here, in words")
    by: Literal["match", "link"] = Field(
        description="found by the question, or along links from what was found"
    )
    slot: str | None = Field(description="the slot of the recipe that it fills; null without a recipe")
    text: str
    relevance: float
    tokens: int = Field(description="of its text")
    whole: bool = Field(description="it is a whole section")
    compressed: bool = Field(description="the text leaves parts of the note out, and marks each gap")
    stale: bool | None = Field(
        description="the file has changed since it was indexed; null: unknown, because the vault is unavailable"
    )


class LeftOutPassage(BaseModel):
    """A passage that was left out, its size, and why."""

    path: str
    domain: str
    locator: Locator
    tokens: int
    reason: Reason


class ContextAnswer(BaseModel):
    """The answer of `GET` and `POST /context`; `match` is null where nothing was found, or by filters alone."""

    model_config = example(
        question="pricing power", filters=[], recipe=None, block="# pricing power\n…", tokens=412, budget=4000,
        counted_by="sentence-transformers/all-MiniLM-L6-v2", compress="none", match="strong", left_out_count=1,
        left_out_tokens=230, warnings=[], took_ms=31.0, index=INDEX_EXAMPLE,
        passages=[
            {"path": "Concepts/Moats.md", "domain": "finance", "title": "Moats", "section": "What a moat is",
             "locator": {"kind": "lines", "first": 12, "last": 31}, "date": "2026-11-21",
             "why": "strong match in meaning; has words of the question", "by": "match", "slot": None,
             "text": "A moat is pricing power that lasts.", "relevance": 0.9, "tokens": 9, "whole": True,
             "compressed": False, "stale": False}
        ],
        left_out=[
            {"path": "Concepts/Brands.md", "domain": "finance", "tokens": 230, "reason": "budget",
             "locator": {"kind": "lines", "first": 1, "last": 20}}
        ],
    )  # fmt: skip

    question: str | None = Field(description="null: a recipe's slots ask questions of their own")
    filters: list[TypedFilter] = Field(description="the operators in the question: `tag:x`, `-kind:y` ...")
    recipe: str | None
    block: str = Field(
        description="Markdown to hand to a model; empty if nothing was found or the search failed"
    )
    tokens: int = Field(description="of the block; never more than `budget`")
    budget: int
    counted_by: str = Field(
        description="the model whose tokenizer counted, or `estimate`: a token per four bytes"
    )
    compress: CompressionMode
    match: Literal["strong", "weak", "none"] | None
    passages: list[ContextPassage]
    left_out: list[LeftOutPassage] = Field(description="the first of what was left out")
    left_out_count: int
    left_out_tokens: int
    warnings: list[str] = Field(description="what failed or is missing; the block is without it")
    index: IndexState | None = Field(description="null: it cannot be read now")
    took_ms: float
