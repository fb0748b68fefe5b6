"""Read `_domains.yaml`: the domains of a vault, and the domain that each path belongs to."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipelines.errors import ConfigurationError, DomainsFileError, UnsafePathError
from pipelines.formats import NAMES, OF_A_NEW_VAULT, FormatName, format_of
from pipelines.model import (
    Absent,
    CentralOver,
    Communities,
    ContextLimits,
    DateOrder,
    Decay,
    Domain,
    EmbeddingContext,
    Fusion,
    GraphMode,
    Kind,
    PagerankOver,
    Privacy,
    Promote,
    RankFusion,
    Relations,
)
from pipelines.notes.frontmatter import YAML_SURPRISES, line_of, refuse_bombs, refuse_twice
from pipelines.notes.links import LONGEST_TYPE, type_of
from pipelines.vault import paths

# The keys of `_domains.yaml`, with their types and what they mean; two pages of the documentation are made of them.


# YAML 1.1 reads a bare `off` as false.
_Off = BeforeValidator(lambda value: "off" if value is False else value)


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")  # noqa: TRY004 - pydantic reports a ValueError
    return value


_NotTruth = BeforeValidator(_refuse_truth)
_MOST_RELATIONS = 100
_Weight = Annotated[float, _NotTruth, Field(ge=0, le=1000)]
_Share = Annotated[float, _NotTruth, Field(ge=0, le=1)]
_PositiveShare = Annotated[float, _NotTruth, Field(gt=0, le=1)]


class DomainsFileModel(BaseModel):
    """A mapping of `_domains.yaml`, whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=False)


class KindKeys(DomainsFileModel):
    """A kind of `kind_overrides:`."""

    group_by_path_prefix: Annotated[list[_Weight], Field(min_length=1)]


class DecayKeys(DomainsFileModel):
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


class LexicalKeys(DomainsFileModel):
    """`lexical:`."""

    weight: _Weight | None = Field(
        default=None,
        description="what a rank by exact words counts beside one by meaning; setting it selects rrf; default: 1",
    )


class RankFusionKeys(DomainsFileModel):
    """`rrf:`."""

    absent: Absent = Field(
        default=RankFusion().absent,
        description="what a passage gets for a list that lacks it: nothing, or a place after its end (penalty)",
    )
    usage: _Weight = Field(
        default=RankFusion().usage,
        description="what a rank by attention counts; the source document's is half of that by meaning",
    )
    names: _Weight = Field(
        default=RankFusion().names,
        description="what a rank by the question's words in titles and file names counts",
    )


class ContextKeys(DomainsFileModel):
    """`context:`."""

    max_files: Annotated[int, _NotTruth, Field(ge=0, le=1000)] = Field(
        default=ContextLimits().max_files,
        description="the most notes in a block; 0: no limit, or the densest first, a third of the candidates, 3 to 8",
    )
    target_ratio: _Share = Field(
        default=ContextLimits().target_ratio,
        description="the share of a passage or of its source code that `strong` compression aims at",
    )
    max_prune_ratio: _Share = Field(
        default=ContextLimits().max_prune_ratio,
        description="the most that compression leaves out of the sentences and lines that it may leave out",
    )


class GraphKeys(DomainsFileModel):
    """`graph:`."""

    pagerank_over: PagerankOver = Field(
        default=Domain("", "").pagerank_over, description="the edges that PageRank follows"
    )
    central_over: CentralOver = Field(
        default=Domain("", "").central_over, description="the edges that centrality counts"
    )
    communities: Communities = Field(
        default=Domain("", "").communities,
        description="how communities are found; leiden needs everindex[leiden]",
    )
    mode: Annotated[GraphMode, _Off] = Field(
        default=Domain("", "").graph_mode, description="how links change the order of the answers"
    )
    restart: _PositiveShare = Field(
        default=Domain("", "").walk_restart,
        description="in the mode walk: the chance at each step of going back to the best answers",
    )


class RerankKeys(DomainsFileModel):
    """`rerank:`."""

    model: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="a second model that ranks the best notes again: as in `embedding`, or the folder of a"
        " cross-encoder that EVERINDEX_ALLOWED_MODELS names; default: none",
    )
    depth: Annotated[int, _NotTruth, Field(ge=2, le=200)] | None = Field(
        default=None, description="how many notes it ranks; default: 50, by a cross-encoder 20"
    )
    weight: _Share = Field(
        default=Domain("", "").rerank_weight, description="what the score before it counts beside its own"
    )


class PrivacyKeys(DomainsFileModel):
    """`privacy:`."""

    tags: list[str] = []
    folders: list[str] = []


class ReviewKeys(DomainsFileModel):
    """`review:`."""

    promote: Promote = "on_save"
    threshold: Annotated[float, _NotTruth, Field(gt=0, le=1)] | None = None


class RelationKeys(DomainsFileModel):
    """A type of `relations:`."""

    inverse: str | None = None
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_TYPE)] | None = None


class RecordTypeKeys(DomainsFileModel):
    """A type of `documents.yaml.types:`."""

    sections: list[str] | None = None
    units: dict[str, str] = {}


class RecordKeys(DomainsFileModel):
    """`documents.yaml:`; keys in dotted form."""

    types: dict[str, RecordTypeKeys] = {}
    skip: list[str] | None = None
    id: str | None = None
    kind: str | None = None
    date: str | None = None
    only_dated: bool = False


class DocumentsKeys(DomainsFileModel):
    """`documents:`."""

    yaml: RecordKeys = Field(default_factory=RecordKeys)


_Sources = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class DatesKeys(DomainsFileModel):
    """`dates:`."""

    created: _Sources = list(DateOrder().created)
    changed: _Sources = list(DateOrder().changed)


# YAML 1.1 reads a bare `on` as true, and a bare `off` as false.
_Llm = BeforeValidator(
    lambda value: {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
)


Preset = Literal["source"]


class DomainKeys(DomainsFileModel):
    """A domain. Keys with an example are on the settings page, the others among the ranking options."""

    path: str | None = Field(
        default=None,
        description="the folder that the domain owns; default: the folder of its name",
        examples=["books/notes"],
    )
    legacy: bool = Field(
        default=False,
        description="the domain owns everything that no other domain owns, instead of a folder",
        examples=["true"],
    )
    formats: Annotated[list[FormatName], Field(min_length=1)] | None = Field(
        default=None,
        description=f"the formats that are indexed, of {', '.join(NAMES)};"
        f" default: {', '.join(OF_A_NEW_VAULT)}, or only md in a vault that an earlier version indexed",
        examples=["[md, pdf, docx]"],
    )
    embedding: str | None = Field(
        default=None,
        description="the embedding model; default: the built-in one",
        examples=["multilingual-e5-small"],
    )
    privacy: PrivacyKeys = Field(
        default_factory=PrivacyKeys,
        description="notes with these `tags`, or in these `folders` at any depth, are private: agents do not see"
        " them, and only endpoints that are `local` get them; default: only those called `private`",
        examples=["{tags: [secret], folders: [Diary]}"],
    )
    llm: Annotated[Literal["on", "off"], _Llm] = Field(
        default="on", description="off: none of the domain's notes is sent to Claude", examples=["off"]
    )
    review: ReviewKeys = Field(
        default_factory=ReviewKeys,
        description="`promote: manual`: ticked tags are applied by `everindex tags apply`, not 5 s after your last"
        " edit; `threshold`: the least confidence of a local proposal; default: `on_save`, 0.7 (guesses 0.5)",
        examples=["{promote: manual, threshold: 0.8}"],
    )
    dates: DatesKeys = Field(
        default_factory=DatesKeys,
        description="where the date of a note, and that of its last change, is looked up, first to last: names of"
        " properties, `file name`, `git`; the time of the file is always last; default: the usual names",
        examples=["{created: [born, file name], changed: [updated, git]}"],
    )
    relations: Annotated[dict[str, RelationKeys], Field(max_length=_MOST_RELATIONS)] = Field(
        default_factory=dict,
        description="per type of links: its `inverse`, and the `name` that people read; default: the type,"
        " with spaces",
        examples=["{supplier: {inverse: customer, name: is supplied by}}"],
    )
    documents: DocumentsKeys = Field(
        default_factory=DocumentsKeys,
        description="how the records of YAML and JSON files are read: `types`, `skip`, `id`, `kind`, `date`,"
        " `only_dated`; default: every key that does not begin with `_` is text",
        examples=["{yaml: {id: _meta.id, skip: [_meta, _graph], only_dated: true}}"],
    )

    preset: Preset | None = Field(
        default=None,
        description="the source document's stack; keys that you set beside it take precedence; default: none",
    )
    taxonomy: str = Field(
        default="_taxonomy.md", description="the vocabulary, relative to the domain's folder"
    )
    review_queue: str = Field(
        default="_review-queue.md", description="the review queue, relative to the domain's folder"
    )
    embedding_dim: Annotated[int, _NotTruth, Field(gt=0)] | None = Field(
        default=None, description="the length of a vector, which has to be the model's; default: the model's"
    )
    embedding_context: Annotated[EmbeddingContext, _Off] = Field(
        default=Domain("", "").embedding_context,
        description="what the model reads before each passage: nothing, the note's title, or title and headings",
    )
    decay: DecayKeys = Field(default_factory=DecayKeys)
    attention: _Weight = Field(
        default=Domain("", "").attention,
        description="what a note chosen just now gains, as a share of the best score; half after a half-life",
    )
    attention_half_life_days: Annotated[float, _NotTruth, Field(gt=0, le=1000)] = Field(
        default=Domain("", "").attention_half_life_days,
        description="after how many days a choice counts half; after ten weeks none counts",
    )
    attention_session_minutes: Annotated[float, _NotTruth, Field(ge=0, le=1440)] = Field(
        default=Domain("", "").attention_session_minutes,
        description="of a note's choices within this time one counts, and is recorded",
    )
    fusion: Fusion | None = Field(
        default=None,
        description="merge words and meaning by score (convex) or by rank (rrf);"
        " default: convex, or rrf if `lexical.weight` is set",
    )
    lexical: LexicalKeys = Field(default_factory=LexicalKeys)
    rrf: RankFusionKeys = Field(default_factory=RankFusionKeys)
    vocabulary: _Share = Field(
        default=Domain("", "").vocabulary,
        description="what another name of a tag or note that the question names counts beside the question's words",
    )
    sentences: bool = Field(
        default=Domain("", "").sentences,
        description="a passage's nearest sentence counts, too, in a question of four words or more; only in convex",
    )
    graph: GraphKeys = Field(default_factory=GraphKeys)
    rerank: RerankKeys = Field(default_factory=RerankKeys)
    import_inject_threshold: Annotated[int, _NotTruth, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="how many found files must refer to a source file, or found notes be linked with a note of a"
        " context, for it to be added; default: 2, in a context 1",
    )
    context: ContextKeys = Field(default_factory=ContextKeys)


SECTIONS: dict[str, type[DomainsFileModel]] = {
    "a domain": DomainKeys,
    "`dates:`": DatesKeys,
    "`decay:`": DecayKeys,
    "a kind of `decay:`": KindKeys,
    "`lexical:`": LexicalKeys,
    "`rrf:`": RankFusionKeys,
    "`graph:`": GraphKeys,
    "`rerank:`": RerankKeys,
    "a type of `relations:`": RelationKeys,
    "`context:`": ContextKeys,
    "`privacy:`": PrivacyKeys,
    "`review:`": ReviewKeys,
    "`documents:`": DocumentsKeys,
    "`documents.yaml:`": RecordKeys,
    "a type of record": RecordTypeKeys,
}
"""The mappings by name."""


# Read a file of named entries that the vault's owner writes: `_contexts.yaml`, `_scopes.yaml`.


LONGEST_NAME = 100
"""Characters of an entry's name."""


def read_text(root: Path, file: str, limit: int, error: type[ConfigurationError]) -> str | None:
    """Return the text of a file at the vault's root, None without one; raises the given error if it is unreadable."""
    try:
        return paths.read_file(root, file, limit).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnsafePathError, UnicodeDecodeError) as problem:
        raise error(f"{root / file} cannot be read: {problem}") from problem


def parse_entries(
    text: str, file: str, error: type[ConfigurationError], expected: str, most: int
) -> tuple[dict[object, Any], yaml.Node | None]:
    """Return the entries by name, and the node that knows their lines.

    Raises the given error, with file, line and reason, for what is no YAML mapping, has aliases, is nested too deep,
    names an entry twice, or has more than `most` entries.
    """
    try:
        refuse_bombs(text, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.load(text, Loader=yaml.SafeLoader)
        refuse_twice(node, file)
    except DomainsFileError as problem:
        raise error(str(problem)) from problem
    except (yaml.YAMLError, *YAML_SURPRISES) as problem:
        mark = getattr(problem, "problem_mark", None)
        reason = getattr(problem, "problem", None) or str(problem)
        raise error(f"{file}:{mark.line + 1 if mark else 1}: not valid YAML: {reason}") from problem
    if not isinstance(data, dict) or not data:
        raise error(f"{file}:1: expected {expected}")
    if len(data) > most:
        raise error(f"{file}: {len(data)} entries are more than {most}; remove some")
    return data, node


# Validate one domain's settings in `_domains.yaml`, and turn them into a `Domain`.


_LONGEST_SLUG = 150  # bytes; the state folder has files named after it

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
        written = DomainKeys.model_validate(_with_preset(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        line = line_of(node, (slug, *first["loc"]))
        raise DomainsFileError(f"{name}:{line}: {slug}{_reason(first)}") from error
    return _domain(slug, written, f"{name}:{line}")


def _domain(slug: str, written: DomainKeys, place: str) -> Domain:
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
        embedding_context=written.embedding_context,
        decay=_decay(written.decay),
        attention=written.attention,
        attention_half_life_days=written.attention_half_life_days,
        attention_session_minutes=written.attention_session_minutes,
        # Only RRF uses a weight, so stating one selects RRF.
        fusion=written.fusion or ("convex" if weight is None else "rrf"),
        lexical_weight=1.0 if weight is None else weight,
        rrf=RankFusion(**written.rrf.model_dump()),
        vocabulary=written.vocabulary,
        sentences=written.sentences,
        pagerank_over=written.graph.pagerank_over,
        central_over=written.graph.central_over,
        communities=written.graph.communities,
        graph_mode=written.graph.mode,
        walk_restart=written.graph.restart,
        rerank_model=written.rerank.model,
        rerank_depth=written.rerank.depth,
        rerank_weight=written.rerank.weight,
        import_inject_threshold=written.import_inject_threshold,
        context=ContextLimits(**written.context.model_dump()),
        privacy=Privacy(tuple(written.privacy.tags), tuple(written.privacy.folders), llm=written.llm == "on"),
        promote=written.review.promote,
        threshold=written.review.threshold,
        documents=_documents(written.documents),
        dates=DateOrder(tuple(written.dates.created), tuple(written.dates.changed)),
        formats=None if written.formats is None else tuple(dict.fromkeys(written.formats)),
        relations=_relations(written.relations, f"{place}: {slug}.relations"),
    )


def _relations(written: dict[str, RelationKeys], place: str) -> Relations:
    """Return what is said of types; an inverse holds both ways, unless the other has its own.

    Raises DomainsFileError.
    """

    def read(key: str) -> str:
        found = type_of(key)
        if found is None:
            raise DomainsFileError(
                f"{place}: a type has 1 to {LONGEST_TYPE} characters, not {reprlib.repr(key)}"
            )
        return found

    stated = {read(key): read(keys.inverse) for key, keys in written.items() if keys.inverse is not None}
    names = {read(key): keys.name for key, keys in written.items() if keys.name is not None}
    return Relations({other: key for key, other in reversed(stated.items())} | stated, names)


def _documents(written: DocumentsKeys) -> dict[str, dict[str, object]]:
    """Return how records are read, by format; nothing where the file says nothing."""
    stated = written.yaml.model_dump(exclude_unset=True)
    return {"yaml": stated, "json": stated} if stated else {}


def _decay(written: DecayKeys) -> Decay:
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
        said = error["msg"].partition(" or instance of ")[0]  # a class of ours, which the file cannot contain
        return f"{where}: {said} (got {reprlib.repr(error.get('input'))})"
    key = str(error["loc"][-1])
    for section, model in SECTIONS.items():
        if key in model.model_fields:
            return f"{where}: a key of {section}, unknown here"
    near = difflib.get_close_matches(
        key, [name for model in SECTIONS.values() for name in model.model_fields], 1
    )
    return f"{where}: unknown key" + (f"; did you mean {near[0]!r}?" if near else "")


DOMAINS_FILE = "_domains.yaml"
WHOLE_VAULT = (Domain("vault", "", legacy=True),)
"""The domains of a vault without `_domains.yaml`."""
_UNSTATED = f"{WHOLE_VAULT[0].slug}: {{legacy: true}}"
"""The same as the file would state them."""

_MOST = 1_000  # domains, each of which has its own index
_LIMIT = 100_000  # bytes, which are parsed within seconds, whatever they contain
_DATED = re.compile(r"(?<!\d)\d{4}(-?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])(?!\d)", re.ASCII)
"""A date of ISO 8601 in the name of a file; a time may follow, as in `NVDA_20260219T0900`."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The current domains. `error` says why a newer `_domains.yaml` is not used, `refused` is its text.

    `formats` are those of a domain that does not state its own.
    """

    domains: tuple[Domain, ...]
    source: str | None = None
    error: str | None = None
    refused: str | None = None
    formats: tuple[str, ...] = OF_A_NEW_VAULT

    def owner(self, path: str) -> Domain | None:
        """Return the domain that owns a path: the one with the longest folder that contains it."""
        return max(
            (d for d in self.domains if not d.path or path.startswith(d.path + "/")),
            key=lambda d: len(d.path),
            default=None,
        )

    def get(self, slug: str) -> Domain | None:
        """Return a domain by its slug."""
        return next((d for d in self.domains if d.slug == slug), None)

    def formats_of(self, path: str) -> tuple[str, ...]:
        """Return the names of the formats that are indexed at a path; none outside all domains."""
        owner = self.owner(path)
        if owner is None:
            return ()
        return self.formats if owner.formats is None else owner.formats

    def is_undated(self, path: str) -> bool:
        """Say whether the domain of a path ignores a record of this name, because it has no date."""
        owner, form = self.owner(path), format_of(path)
        options = owner.documents.get(form.name, {}) if owner and form else {}
        return bool(options.get("only_dated")) and not _DATED.search(path.rpartition("/")[2])

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of the paths that belong to any domain."""
        return tuple(f"{d.path}/" if d.path else "" for d in self.domains)

    @property
    def generated(self) -> tuple[str, ...]:
        """The paths of the review queues, which are generated and never notes."""
        return tuple(d.within(d.review_queue) for d in self.domains)


def load(root: Path, last_good: Registry | None = None) -> Registry:
    """Read the vault's `_domains.yaml`; without one the vault is a single domain.

    If the vault is unavailable, or the file is invalid (with the error recorded), `last_good` stays in use; without
    it DomainsFileError is raised.
    """
    path = root / DOMAINS_FILE
    try:
        text = paths.read_file(root, DOMAINS_FILE, _LIMIT).decode("utf-8")
    except FileNotFoundError:
        # Checked after the failure, because a vault that becomes unavailable in between has not lost its domains.
        return last_good if last_good and not os.access(root, os.F_OK) else Registry(WHOLE_VAULT)
    except (OSError, UnsafePathError, UnicodeDecodeError) as error:
        return _invalid(DomainsFileError(f"{path} cannot be read: {error}"), last_good)
    if last_good and text == (last_good.refused if last_good.error else last_good.source):
        return last_good
    try:
        return Registry(parse(text, str(path)), text)
    except DomainsFileError as error:
        return _invalid(error, last_good, text)


def _invalid(error: DomainsFileError, last_good: Registry | None, text: str | None = None) -> Registry:
    if last_good is None:
        raise error
    return Registry(last_good.domains, last_good.source, str(error), text)


def parse(text: str, name: str = DOMAINS_FILE) -> tuple[Domain, ...]:
    """Parse the text of a `_domains.yaml`. Raises DomainsFileError with file, line and reason."""
    try:
        refuse_bombs(text, name)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.load(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, *YAML_SURPRISES) as error:
        where, problem = _place(error, text), getattr(error, "problem", None) or " ".join(str(error).split())
        raise DomainsFileError(f"{name}{where}: not valid YAML: {problem}") from error
    if not isinstance(data, dict) or not data:
        raise DomainsFileError(f"{name}:1: expected `<domain>:` followed by its settings")
    if len(data) > _MOST:
        raise DomainsFileError(f"{name}: {len(data)} domains are more than {_MOST}; merge some of them")
    refuse_twice(node, name)
    domains = tuple(read_domain(slug, value, node, name) for slug, value in data.items())
    _check_together(domains, node, name)
    return domains


def _place(error: Exception, text: str) -> str:
    """Return the line of an error in a YAML text, as `:3`; nothing where the error does not know it."""
    if mark := getattr(error, "problem_mark", None):
        return f":{mark.line + 1}"
    position = getattr(error, "position", None)  # of a character that YAML does not allow
    return "" if position is None else f":{text.count(chr(10), 0, position) + 1}"


def _check_together(domains: Sequence[Domain], node: yaml.Node | None, name: str) -> None:
    seen: dict[str, Domain] = {}
    for domain in domains:
        other = seen.setdefault(domain.path, domain)
        if other is not domain:
            what = "are both `legacy: true`" if domain.legacy else f"both own {domain.path + '/'!r}"
            line = line_of(node, (domain.slug,))
            raise DomainsFileError(f"{name}:{line}: {other.slug} and {domain.slug} {what}; only one can")


def stated(registry: Registry) -> dict[str, str]:
    """Return what `_domains.yaml` states of each domain: `slug.key`, and the value as text."""
    data: dict[str, Any] = yaml.safe_load(registry.source or _UNSTATED)
    return {
        f"{slug}.{key}": _as_text(value)
        for slug, settings in data.items()
        for key, value in (settings or {}).items()
    }


def defaults() -> dict[str, str]:
    """Return the keys of a domain that a person may want, each with what holds where a domain does not state it."""
    return {
        key: str(field.description).partition("; default: ")[2] or _as_text(field.default)
        for key, field in DomainKeys.model_fields.items()
        if field.examples
    }


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict | list):
        flow = yaml.safe_dump(
            value, default_flow_style=True, width=_LIMIT, allow_unicode=True, sort_keys=False
        )
        return str(flow).strip()
    return str(value)


# Compute a vault's domains as they would be with another setting; nothing is written.


_INDEXED = (
    *("path", "legacy", "embedding", "embedding_dim", "embedding_context", "pagerank_over", "formats"),
    *("documents", "rerank_model"),
)
"""Settings that take effect when notes are indexed."""

_UNASKED = ("taxonomy", "review_queue", "privacy", "promote", "relations", "context")
"""Settings that do not affect any ranking."""


def with_setting(registry: Registry, given: str) -> tuple[Domain, ...]:
    """Return the domains with one setting of `_domains.yaml` changed in each, given as in `lexical.weight=0.5`.

    Raises ConfigurationError if it is not a setting, already has this value, or cannot change an answer without
    indexing the notes again.
    """
    setting, equals, value = (part.strip() for part in given.partition("="))
    if not (setting and equals and value):
        raise ConfigurationError(f"{given!r} is not a setting; write SETTING=VALUE, as in lexical.weight=0.5")
    try:
        refuse_bombs(value, setting)
        domains = parse(_changed(registry, setting.split("."), value), setting)
    except (DomainsFileError, yaml.YAMLError, *YAML_SURPRISES) as error:
        # The parsed text is generated, so its line numbers mean nothing to the reader.
        reason = str(error).partition(": ")[2] if isinstance(error, DomainsFileError) else "not valid YAML"
        raise ConfigurationError(f"{given!r} cannot be compared: {reason}") from error
    _refuse_what_changes_nothing(registry, domains, given)
    return domains


def _changed(registry: Registry, keys: list[str], value: str) -> str:
    """Return the text of `_domains.yaml` with a value at these keys in each domain."""
    data: dict[str, Any] = yaml.safe_load(registry.source or _UNSTATED)
    for slug, settings in data.items():
        section = data[slug] = settings or {}
        for key in keys[:-1]:
            if not isinstance(section.get(key), dict):
                section[key] = {}
            section = section[key]
        # Parsed once per domain, because YAML writes an object used in two places as an alias.
        section[keys[-1]] = yaml.safe_load(value)
    return yaml.safe_dump(data, sort_keys=False)


def _refuse_what_changes_nothing(registry: Registry, domains: tuple[Domain, ...], given: str) -> None:
    changed = {
        field.name
        for before, after in zip(registry.domains, domains, strict=True)
        for field in fields(Domain)
        if getattr(before, field.name) != getattr(after, field.name)
    }
    if changed & set(_INDEXED):
        raise ConfigurationError(
            f"{given!r} cannot be compared: it needs another index; change it in a copy of the vault,"
            " and run `everindex eval` in both"
        )
    if changed & set(_UNASKED):
        raise ConfigurationError(f"{given!r} cannot be compared: no answer depends on it")
    if not changed:
        raise ConfigurationError(f"every domain already has {given!r}: there is nothing to compare")
