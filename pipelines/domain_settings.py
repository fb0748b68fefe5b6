"""Validate one domain's settings in `_domains.yaml`, and turn them into a `Domain`."""

from __future__ import annotations

import difflib
import reprlib
import unicodedata
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipelines.errors import DomainsFileError
from pipelines.model import (
    CentralOver,
    Communities,
    Decay,
    Domain,
    Fusion,
    GraphMode,
    Kind,
    PagerankOver,
    Privacy,
    Promote,
)
from pipelines.yaml_guard import line_of

_LONGEST_SLUG = 150  # bytes; the state folder has files named after it

# YAML 1.1 reads a bare `off` as false.
_Off = BeforeValidator(lambda value: "off" if value is False else value)


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")  # noqa: TRY004 - pydantic reports a ValueError
    return value


_NotTruth = BeforeValidator(_refuse_truth)
_Weight = Annotated[float, _NotTruth, Field(ge=0, le=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)


class _Kind(_Strict):
    group_by_path_prefix: Annotated[list[_Weight], Field(min_length=1)]


class _Decay(_Strict):
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
    kind_overrides: dict[str, _Kind] = Field(
        default_factory=dict,
        description="per kind of note: `group_by_path_prefix`, a ladder for the notes of one folder",
    )


class _Lexical(_Strict):
    weight: _Weight | None = Field(
        default=None,
        description="what a rank by exact words counts beside one by meaning; setting it selects rrf; default: 1",
    )


class _Graph(_Strict):
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


class _Privacy(_Strict):
    tags: list[str] = Field(default_factory=list, description="notes with these tags are never sent anywhere")
    folders: list[str] = Field(
        default_factory=list, description="notes in these folders, at any depth, are never sent anywhere"
    )


class _Review(_Strict):
    promote: Promote = Field(
        default="on_save",
        description="on_save: ticked tags are applied 5 s after you edit the queue; manual: by `everindex promote`",
    )
    threshold: Annotated[float, _NotTruth, Field(gt=0, le=1)] | None = Field(
        default=None, description="the least confidence of a local proposal; default: 0.7, guesses 0.5"
    )


# YAML 1.1 reads a bare `on` as true, and a bare `off` as false.
_Llm = BeforeValidator(
    lambda value: {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
)


Preset = Literal["source"]


class _Domain(_Strict):
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
    decay: _Decay = Field(default_factory=_Decay)
    attention: _Weight = Field(
        default=Domain("", "").attention,
        description="what a note chosen just now gains, as a share of the best score; half after a week",
    )
    fusion: Fusion | None = Field(
        default=None,
        description="merge words and meaning by score (convex) or by rank (rrf);"
        " default: convex, or rrf if `lexical.weight` is set",
    )
    lexical: _Lexical = Field(default_factory=_Lexical)
    sentences: bool = Field(
        default=Domain("", "").sentences,
        description="a passage's nearest sentence counts, too, in a question of four words or more; only in convex",
    )
    graph: _Graph = Field(default_factory=_Graph)
    privacy: _Privacy = Field(default_factory=_Privacy)
    llm: Annotated[Literal["on", "off"], _Llm] = Field(
        default="on", description="off: none of the domain's notes is sent to Claude"
    )
    review: _Review = Field(default_factory=_Review)


_PRESETS: dict[object, dict[str, Any]] = {
    # The source document's stack; the lexical weight is that of its first domain, while its others have 0.05.
    "source": {
        "embedding": "BAAI/bge-large-en-v1.5",
        "fusion": "rrf",
        "lexical": {"weight": 0.5},
        "graph": {
            "mode": "linear",
            "pagerank_over": "citations",
            "central_over": "links",
            "communities": "louvain",
        },
    }
}


def _with_preset(value: object) -> object:
    """Return a domain's settings merged with those of its preset; its own settings take precedence."""
    if not isinstance(value, dict):
        return {} if value is None else value
    name = value.get("preset")
    filled = dict(value)
    for key, preset in (_PRESETS.get(name, {}) if isinstance(name, str) else {}).items():
        own = value.get(key, preset)
        filled[key] = {**preset, **own} if isinstance(preset, dict) and isinstance(own, dict) else own
    return filled


def _inside(path: str, what: str, place: str) -> str:
    """Return a relative path in normal form (NFC, no empty or `.` parts). Raises DomainsFileError."""
    parts = [part for part in unicodedata.normalize("NFC", path).split("/") if part not in ("", ".")]
    no_name = "\0" in path or any("\ud800" <= sign <= "\udfff" for sign in path)
    if path.startswith("/") or ".." in parts or not parts or no_name:
        raise DomainsFileError(f"{place}: {what} must be a path inside the vault, not {path!r}")
    return "/".join(parts)


def read_domain(slug: object, value: object, node: yaml.Node | None, name: str) -> Domain:
    """Return the domain for its settings in the file `name`. Raises DomainsFileError with line and reason."""
    line = line_of(node, (slug,))
    if not isinstance(slug, str) or not slug.replace("-", "").replace("_", "").isalnum():
        raise DomainsFileError(
            f"{name}:{line}: a domain is named with letters, digits, `-` and `_`, not {slug!r}"
        )
    if len(slug.encode()) > _LONGEST_SLUG:
        raise DomainsFileError(
            f"{name}:{line}: the name {slug[:20] + '...'!r} is too long; use a shorter one"
        )
    try:
        written = _Domain.model_validate(_with_preset(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        line = line_of(node, (slug, *first["loc"]))
        raise DomainsFileError(f"{name}:{line}: {slug}{_reason(first)}") from error
    return _domain(slug, written, f"{name}:{line}")


def _domain(slug: str, written: _Domain, place: str) -> Domain:
    path = "" if written.legacy else _inside((written.path or slug).strip("/"), f"{slug}.path", place)
    weight = written.lexical.weight
    return Domain(
        slug=slug,
        path=path,
        legacy=written.legacy,
        taxonomy=_inside(written.taxonomy, f"{slug}.taxonomy", place),
        review_queue=_inside(written.review_queue, f"{slug}.review_queue", place),
        embedding=written.embedding,
        embedding_dim=written.embedding_dim,
        decay=_decay(written.decay),
        attention=written.attention,
        # Only RRF uses a weight, so stating one selects RRF.
        fusion=written.fusion or ("convex" if weight is None else "rrf"),
        lexical_weight=1.0 if weight is None else weight,
        sentences=written.sentences,
        pagerank_over=written.graph.pagerank_over,
        central_over=written.graph.central_over,
        communities=written.graph.communities,
        graph_mode=written.graph.mode,
        privacy=Privacy(tuple(written.privacy.tags), tuple(written.privacy.folders), llm=written.llm == "on"),
        promote=written.review.promote,
        threshold=written.review.threshold,
    )


def _decay(written: _Decay) -> Decay:
    return Decay(
        mode=written.mode,
        ladder=tuple(written.ladder),
        recency_boost_days=written.recency_boost_days,
        recency_boost_amount=written.recency_boost_amount,
        kind_overrides={
            kind: Kind(tuple(override.group_by_path_prefix))
            for kind, override in written.kind_overrides.items()
        },
    )


def _reason(error: Any) -> str:
    """Say what is wrong with one key: pydantic's message, or the nearest valid name for an unknown key."""
    where = "".join(f".{part}" for part in error["loc"])
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg']} (got {reprlib.repr(error.get('input'))})"
    sections: dict[str, type[_Strict]] = {
        "a domain": _Domain,
        "`decay:`": _Decay,
        "a kind of `decay:`": _Kind,
        "`lexical:`": _Lexical,
        "`graph:`": _Graph,
        "`privacy:`": _Privacy,
        "`review:`": _Review,
    }
    key = str(error["loc"][-1])
    for section, model in sections.items():
        if key in model.model_fields:
            return f"{where}: a key of {section}, unknown here"
    near = difflib.get_close_matches(
        key, [name for model in sections.values() for name in model.model_fields], 1
    )
    return f"{where}: unknown key" + (f"; did you mean {near[0]!r}?" if near else "")
