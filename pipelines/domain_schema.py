"""The keys of `_domains.yaml`, with their types and what they mean; the settings page is made of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pipelines.documents.formats import NAMES, OF_A_NEW_VAULT, FormatName
from pipelines.model import (
    CentralOver,
    Communities,
    DateOrder,
    Decay,
    Domain,
    EmbeddingContext,
    Fusion,
    GraphMode,
    PagerankOver,
    Promote,
)

# YAML 1.1 reads a bare `off` as false.
_Off = BeforeValidator(lambda value: "off" if value is False else value)


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")  # noqa: TRY004 - pydantic reports a ValueError
    return value


_NotTruth = BeforeValidator(_refuse_truth)
_Weight = Annotated[float, _NotTruth, Field(ge=0, le=1000)]


class Keys(BaseModel):
    """A mapping of `_domains.yaml`, whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=False)


class KindKeys(Keys):
    """A kind of `kind_overrides:`."""

    group_by_path_prefix: Annotated[list[_Weight], Field(min_length=1)]


class DecayKeys(Keys):
    """`decay:`."""

    mode: Annotated[Literal["off", "ranked_grouped"], _Off] = Field(
        default="off", description="ranked_grouped: an author's older notes count less"
    )
    ladder: Annotated[list[_Weight], Field(min_length=1)] = Field(
        default=list(Decay().ladder),
        description="what an author's newest, second newest ... note among the candidates counts",
    )
    recency_boost_days: Annotated[int, _NotTruth, Field(ge=0)] = Field(
        default=Decay().recency_boost_days, description="up to this age in days a note is recent"
    )
    recency_boost_amount: _Weight = Field(
        default=Decay().recency_boost_amount,
        description="what a recent note gains, as a share of the range of scores",
    )
    kind_overrides: dict[str, KindKeys] = Field(
        default_factory=dict,
        description="per kind of note: `group_by_path_prefix`, a ladder for the notes of one folder",
    )


class LexicalKeys(Keys):
    """`lexical:`."""

    weight: _Weight | None = Field(
        default=None,
        description="what a rank by exact words counts beside one by meaning; setting it selects rrf; default: 1",
    )


class GraphKeys(Keys):
    """`graph:`."""

    pagerank_over: PagerankOver = Field(
        default=Domain("", "").pagerank_over, description="the edges that PageRank follows"
    )
    central_over: CentralOver = Field(
        default=Domain("", "").central_over, description="the edges that centrality counts"
    )
    communities: Communities = Field(
        default=Domain("", "").communities, description="how communities are found"
    )
    mode: Annotated[GraphMode, _Off] = Field(
        default=Domain("", "").graph_mode, description="how links change the order of the answers"
    )


class PrivacyKeys(Keys):
    """`privacy:`."""

    tags: list[str] = Field(default_factory=list, description="notes with these tags are never sent anywhere")
    folders: list[str] = Field(
        default_factory=list, description="notes in these folders, at any depth, are never sent anywhere"
    )


class ReviewKeys(Keys):
    """`review:`."""

    promote: Promote = Field(
        default="on_save",
        description="on_save: ticked tags are applied 5 s after you edit the queue; manual: by `everindex promote`",
    )
    threshold: Annotated[float, _NotTruth, Field(gt=0, le=1)] | None = Field(
        default=None, description="the least confidence of a local proposal; default: 0.7, guesses 0.5"
    )


class RecordTypeKeys(Keys):
    """A type of `documents.yaml.types:`."""

    sections: list[str] | None = Field(
        default=None,
        description="the keys that are indexed, in dotted form; default: all that do not begin with `_`",
    )
    units: dict[str, str] = Field(
        default_factory=dict, description="how values are shown, by the end of their key, as in `_pct`"
    )


class RecordKeys(Keys):
    """`documents.yaml:`."""

    types: dict[str, RecordTypeKeys] = Field(
        default_factory=dict, description="per type of record: `sections` and `units`"
    )
    skip: list[str] | None = Field(default=None, description="the keys that are not indexed as text")
    id: str | None = Field(default=None, description="the key of a record's id, in dotted form")
    kind: str | None = Field(default=None, description="the key of a record's type, in dotted form")
    date: str | None = Field(default=None, description="the key of a record's date, in dotted form")


class DocumentsKeys(Keys):
    """`documents:`."""

    yaml: RecordKeys = Field(default_factory=RecordKeys)


_Sources = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class DatesKeys(Keys):
    """`dates:`."""

    created: _Sources = Field(
        default=list(DateOrder().created),
        description="where a note's date is looked up, first to last: names of properties, `file name`, `git`;"
        " the time of the file is always last",
    )
    changed: _Sources = Field(
        default=list(DateOrder().changed), description="the same for the date of its last change"
    )


# YAML 1.1 reads a bare `on` as true, and a bare `off` as false.
_Llm = BeforeValidator(
    lambda value: {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
)


Preset = Literal["source"]


class DomainKeys(Keys):
    """A domain."""

    preset: Preset | None = Field(
        default=None,
        description="the source document's stack; keys that you set beside it take precedence; default: none",
    )
    legacy: bool = Field(
        default=False, description="the domain owns everything that no other domain owns, instead of a folder"
    )
    path: str | None = Field(
        default=None, description="the folder that the domain owns; default: the folder of its name"
    )
    taxonomy: str = Field(
        default="_taxonomy.md", description="the vocabulary, relative to the domain's folder"
    )
    review_queue: str = Field(
        default="_review-queue.md", description="the review queue, relative to the domain's folder"
    )
    embedding: str | None = Field(
        default=None, description="the domain's embedding model; default: the built-in one"
    )
    embedding_dim: Annotated[int, _NotTruth, Field(gt=0)] | None = Field(
        default=None, description="the length of a vector, which has to be the model's; default: the model's"
    )
    embedding_context: Annotated[EmbeddingContext, _Off] = Field(
        default=Domain("", "").embedding_context,
        description="what the model reads before each passage: nothing, the note's title, or title and headings",
    )
    dates: DatesKeys = Field(default_factory=DatesKeys)
    decay: DecayKeys = Field(default_factory=DecayKeys)
    attention: _Weight = Field(
        default=Domain("", "").attention,
        description="what a note chosen just now gains, as a share of the best score; half after a week",
    )
    fusion: Fusion | None = Field(
        default=None,
        description="merge words and meaning by score (convex) or by rank (rrf);"
        " default: convex, or rrf if `lexical.weight` is set",
    )
    lexical: LexicalKeys = Field(default_factory=LexicalKeys)
    sentences: bool = Field(
        default=Domain("", "").sentences,
        description="a passage's nearest sentence counts, too, in a question of four words or more; only in convex",
    )
    graph: GraphKeys = Field(default_factory=GraphKeys)
    privacy: PrivacyKeys = Field(default_factory=PrivacyKeys)
    llm: Annotated[Literal["on", "off"], _Llm] = Field(
        default="on", description="off: none of the domain's notes is sent to Claude"
    )
    review: ReviewKeys = Field(default_factory=ReviewKeys)
    documents: DocumentsKeys = Field(default_factory=DocumentsKeys)
    formats: Annotated[list[FormatName], Field(min_length=1)] | None = Field(
        default=None,
        description=f"the formats that are indexed, of {', '.join(NAMES)};"
        f" default: {', '.join(OF_A_NEW_VAULT)}, or only md in a vault that an earlier version indexed",
    )


SECTIONS: dict[str, type[Keys]] = {
    "a domain": DomainKeys,
    "`dates:`": DatesKeys,
    "`decay:`": DecayKeys,
    "a kind of `decay:`": KindKeys,
    "`lexical:`": LexicalKeys,
    "`graph:`": GraphKeys,
    "`privacy:`": PrivacyKeys,
    "`review:`": ReviewKeys,
    "`documents:`": DocumentsKeys,
    "`documents.yaml:`": RecordKeys,
    "a type of record": RecordTypeKeys,
}
"""The mappings by name."""
