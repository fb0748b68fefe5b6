"""Validate one domain's settings in `_domains.yaml`, and turn them into a `Domain`."""

from __future__ import annotations

import difflib
import reprlib
import unicodedata
from typing import Any

import yaml
from pydantic import ValidationError

from pipelines.domain_schema import SECTIONS, DecayKeys, DocumentsKeys, DomainKeys
from pipelines.errors import DomainsFileError
from pipelines.model import (
    DateOrder,
    Decay,
    Domain,
    Kind,
    Privacy,
)
from pipelines.parsing.yaml_guard import line_of

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
        documents=_documents(written.documents),
        dates=DateOrder(tuple(written.dates.created), tuple(written.dates.changed)),
        formats=None if written.formats is None else tuple(dict.fromkeys(written.formats)),
    )


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
