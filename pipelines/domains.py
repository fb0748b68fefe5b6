"""`_domains.yaml` -> the domains of a vault, and which path belongs to which."""

from __future__ import annotations

import difflib
import os
import reprlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipelines import beneath
from pipelines.errors import DomainsFileError, UnsafePathError
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

DOMAINS_FILE = "_domains.yaml"
WHOLE_VAULT = (Domain("vault", "", legacy=True),)
"""What a vault without `_domains.yaml` is."""

YAML_SURPRISES = (ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What PyYAML raises besides its own errors: for a tag whose value does not fit, whatever its conversion raises."""

_DEEPEST = 20
_LONGEST_SLUG = 150  # bytes: files of the state folder are named after it
_MOST = 1_000  # domains: each has an index of its own
_LIMIT = 100_000  # bytes: they are parsed within seconds, whatever they are

# YAML 1.1 reads a bare `off` as false.
_Off = BeforeValidator(lambda value: "off" if value is False else value)


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is wanted, not true or false")  # noqa: TRY004 - pydantic reports a ValueError
    return value


_NotTruth = BeforeValidator(_refuse_truth)
_Weight = Annotated[float, _NotTruth, Field(ge=0, le=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)


class _Kind(_Strict):
    group_by_path_prefix: Annotated[list[_Weight], Field(min_length=1)]


class _Decay(_Strict):
    mode: Annotated[Literal["off", "ranked_grouped"], _Off] = "off"
    ladder: Annotated[list[_Weight], Field(min_length=1)] = Field(default=list(Decay().ladder))
    recency_boost_days: Annotated[int, _NotTruth, Field(ge=0)] = Decay().recency_boost_days
    recency_boost_amount: _Weight = Decay().recency_boost_amount
    kind_overrides: dict[str, _Kind] = Field(default_factory=dict)


class _Lexical(_Strict):
    weight: _Weight | None = None


class _Graph(_Strict):
    pagerank_over: PagerankOver = Domain("", "").pagerank_over
    central_over: CentralOver = Domain("", "").central_over
    communities: Communities = Domain("", "").communities
    mode: Annotated[GraphMode, _Off] = Domain("", "").graph_mode


class _Privacy(_Strict):
    tags: list[str] = Field(default_factory=list)
    folders: list[str] = Field(default_factory=list)


class _Review(_Strict):
    promote: Promote = "on_save"


# YAML 1.1 reads a bare `on` as true, and a bare `off` as false.
_Llm = BeforeValidator(
    lambda value: {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
)


Preset = Literal["source"]


class _Domain(_Strict):
    preset: Preset | None = None
    legacy: bool = False
    path: str | None = None
    taxonomy: str = "_taxonomy.md"
    review_queue: str = "_review-queue.md"
    embedding: str | None = None
    embedding_dim: Annotated[int, _NotTruth, Field(gt=0)] | None = None
    decay: _Decay = Field(default_factory=_Decay)
    fusion: Fusion | None = None
    lexical: _Lexical = Field(default_factory=_Lexical)
    sentences: bool = Domain("", "").sentences
    graph: _Graph = Field(default_factory=_Graph)
    privacy: _Privacy = Field(default_factory=_Privacy)
    llm: Annotated[Literal["on", "off"], _Llm] = "on"
    review: _Review = Field(default_factory=_Review)


_PRESETS: dict[object, dict[str, Any]] = {
    # The source document's stack; the lexical weight is that of its first domain, the others have 0.05.
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
    """Return a domain's settings with those of its preset; what is written beside it takes precedence."""
    if not isinstance(value, dict):
        return {} if value is None else value
    name = value.get("preset")
    filled = dict(value)
    for key, preset in (_PRESETS.get(name, {}) if isinstance(name, str) else {}).items():
        own = value.get(key, preset)
        filled[key] = {**preset, **own} if isinstance(preset, dict) and isinstance(own, dict) else own
    return filled


@dataclass(frozen=True, slots=True)
class Registry:
    """The domains in force. `error` says why a newer `_domains.yaml` is not among them, `refused` is its text."""

    domains: tuple[Domain, ...]
    source: str | None = None
    error: str | None = None
    refused: str | None = None

    def owner(self, path: str) -> Domain | None:
        """Return the domain that owns a path: the longest folder that holds it."""
        return max(
            (d for d in self.domains if not d.path or path.startswith(d.path + "/")),
            key=lambda d: len(d.path),
            default=None,
        )

    def get(self, slug: str) -> Domain | None:
        """Return a domain by its slug."""
        return next((d for d in self.domains if d.slug == slug), None)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What a path begins with to belong to any domain."""
        return tuple(f"{d.path}/" if d.path else "" for d in self.domains)

    @property
    def generated(self) -> tuple[str, ...]:
        """The paths of the review queues: ours, never notes."""
        return tuple(d.within(d.review_queue) for d in self.domains)


def load(root: Path, last_good: Registry | None = None) -> Registry:
    """Read the vault's `_domains.yaml`; without one the vault is a single domain.

    A vault that is away leaves `last_good` in force, and so does an invalid file, with the error noted; without a
    last good one it raises DomainsFileError.
    """
    path = root / DOMAINS_FILE
    try:
        text = beneath.read_file(root, DOMAINS_FILE, _LIMIT).decode("utf-8")
    except FileNotFoundError:
        # Asked after the failure: a vault that goes away in between has not lost its domains.
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
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise DomainsFileError(f"{name}:{mark.line + 1 if mark else 1}: not valid YAML: {problem}") from error
    if not isinstance(data, dict) or not data:
        raise DomainsFileError(f"{name}:1: expected `<domain>:` followed by its settings")
    if len(data) > _MOST:
        raise DomainsFileError(f"{name}: {len(data)} domains are more than {_MOST}; merge some of them")
    _refuse_twice(node, name)
    domains = tuple(_domain(slug, value, node, name) for slug, value in data.items())
    _check_together(domains, node, name)
    return domains


def refuse_bombs(text: str, name: str) -> None:
    """Refuse YAML that is built to exhaust: aliases (a few lines expand to gigabytes), and nesting without end.

    Raises DomainsFileError, YAMLError.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise DomainsFileError(f"{name}: nested more than {_DEEPEST} levels deep")
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise DomainsFileError(f"{name}:{line}: YAML aliases (`*x`) are not allowed here")


def _refuse_twice(node: yaml.Node | None, name: str) -> None:
    """Refuse a key that stands twice in a mapping: YAML would silently forget the first."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if str(key.value) in seen:
            raise DomainsFileError(f"{name}:{key.start_mark.line + 1}: {key.value!r} is written twice")
        seen.add(str(key.value))
        _refuse_twice(value, name)


def _inside(path: str, what: str, place: str) -> str:
    """Return a relative path in plain form (NFC, no empty or `.` parts). Raises DomainsFileError."""
    parts = [part for part in unicodedata.normalize("NFC", path).split("/") if part not in ("", ".")]
    no_name = "\0" in path or any("\ud800" <= sign <= "\udfff" for sign in path)
    if path.startswith("/") or ".." in parts or not parts or no_name:
        raise DomainsFileError(f"{place}: {what} must be a path inside the vault, not {path!r}")
    return "/".join(parts)


def _domain(slug: object, value: object, node: yaml.Node | None, name: str) -> Domain:
    line = _line(node, (slug,))
    if not isinstance(slug, str) or not slug.replace("-", "").replace("_", "").isalnum():
        raise DomainsFileError(
            f"{name}:{line}: a domain is named with letters, digits, `-` and `_`, not {slug!r}"
        )
    if len(slug.encode()) > _LONGEST_SLUG:
        raise DomainsFileError(
            f"{name}:{line}: the name {slug[:20] + '...'!r} is too long; use a shorter one"
        )
    try:
        raw = _Domain.model_validate(_with_preset(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        line = _line(node, (slug, *first["loc"]))
        raise DomainsFileError(f"{name}:{line}: {slug}{_reason(first)}") from error
    place = f"{name}:{line}"
    path = "" if raw.legacy else _inside((raw.path or slug).strip("/"), f"{slug}.path", place)
    decay = Decay(
        mode=raw.decay.mode,
        ladder=tuple(raw.decay.ladder),
        recency_boost_days=raw.decay.recency_boost_days,
        recency_boost_amount=raw.decay.recency_boost_amount,
        kind_overrides={
            kind: Kind(tuple(override.group_by_path_prefix))
            for kind, override in raw.decay.kind_overrides.items()
        },
    )
    return Domain(
        slug=slug,
        path=path,
        legacy=raw.legacy,
        taxonomy=_inside(raw.taxonomy, f"{slug}.taxonomy", place),
        review_queue=_inside(raw.review_queue, f"{slug}.review_queue", place),
        embedding=raw.embedding,
        embedding_dim=raw.embedding_dim,
        decay=decay,
        # A weight is RRF's: who states one asks for it.
        fusion=raw.fusion or ("convex" if raw.lexical.weight is None else "rrf"),
        lexical_weight=1.0 if raw.lexical.weight is None else raw.lexical.weight,
        sentences=raw.sentences,
        pagerank_over=raw.graph.pagerank_over,
        central_over=raw.graph.central_over,
        communities=raw.graph.communities,
        graph_mode=raw.graph.mode,
        privacy=Privacy(tuple(raw.privacy.tags), tuple(raw.privacy.folders), llm=raw.llm == "on"),
        promote=raw.review.promote,
    )


def _reason(error: Any) -> str:
    """Say what is wrong with one key: pydantic's words, and the nearest valid name for an unknown key."""
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


def _check_together(domains: Sequence[Domain], node: yaml.Node | None, name: str) -> None:
    seen: dict[str, Domain] = {}
    for domain in domains:
        other = seen.setdefault(domain.path, domain)
        if other is not domain:
            what = "are both `legacy: true`" if domain.legacy else f"both own {domain.path + '/'!r}"
            line = _line(node, (domain.slug,))
            raise DomainsFileError(f"{name}:{line}: {other.slug} and {domain.slug} {what}; only one can")


def _line(node: yaml.Node | None, keys: Sequence[object]) -> int:
    """Return the line (from 1) on which a key path stands, as deep as it can be followed."""
    line = 1
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == str(key)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
        else:
            break
    return line
