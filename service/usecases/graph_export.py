"""Export the graph of a vault to a file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pipelines.cache.cache import Cache
from pipelines.errors import AlreadyThereError, CacheMissingError
from pipelines.graph.export import Format, as_file, linked_notes
from pipelines.model import Domain
from service.usecases.domains import named_domains
from workers.resources import Resources


def export_graph(resources: Resources, file: Path, form: Format, slug: str | None) -> tuple[int, int]:
    """Write the graph of all domains, or one, to a new file; return how many notes and links it has.

    Notes whose files vanished are left out. Raises DomainNotFoundError, CacheError, AlreadyThereError, OSError; no
    file is left then.
    """
    caches = _caches(resources, slug)
    graph = linked_notes(caches)
    for domain, _ in caches:
        graph.remove_nodes_from(resources.vanished().waiting(domain.slug))
    written = as_file(graph, form)
    try:
        target = file.open("xb")
    except FileExistsError as error:
        raise AlreadyThereError(f"{file} exists already; choose another file, or remove it first") from error
    try:
        with target:
            target.write(written)
    except OSError:
        with suppress(OSError):
            file.unlink()
        raise
    return len(graph), graph.number_of_edges()


def _caches(resources: Resources, slug: str | None) -> list[tuple[Domain, Cache]]:
    """Return the indexed domains. A damaged one is an error, because a partial export must not look complete."""
    found = []
    for domain in named_domains(resources, slug):
        with suppress(CacheMissingError):
            found.append((domain, resources.reader(domain)))
    return found
