"""DESIGN.md, "Who may import whom" and "Each library has one home"."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("pipelines", "queue_config", "service", "workers")

MAY_IMPORT = {
    "queue_config": ("queue_config",),
    "pipelines": ("pipelines",),
    "workers": ("workers", "pipelines", "queue_config"),
    "service": (
        "service",
        "pipelines",
        "queue_config",
        "workers.tasks",
        "workers.tagging",
        "workers.tag_desk",
        "workers.resources",
        "workers.place",
    ),
    "service.commands.services": (
        "service",
        "pipelines",
        "queue_config",
        "workers.tasks",
        "workers.resources",
        "workers.place",
        "workers.run",
    ),
}
"""What of ours a module may import: the longest name that holds the module decides."""

HOMES = {
    "apsw": ("pipelines.store",),
    "sqlite_vec": ("pipelines.store",),
    "sentence_transformers": ("pipelines.any_model", "pipelines.openvino"),
    "torch": ("pipelines.embed", "pipelines.bert", "pipelines.any_model", "pipelines.retrieval.codes"),
    "transformers": ("pipelines.any_model",),
    "tokenizers": ("pipelines.bert",),
    "safetensors": ("pipelines.bert",),
    "huggingface_hub": ("pipelines.model_files",),
    "networkx": ("pipelines.graph",),
    "scipy": ("pipelines.graph",),
    "rapidfuzz": ("pipelines.links", "pipelines.retrieval.titles"),
    "graspologic_native": ("pipelines.graph",),
    "anthropic": ("pipelines.tagging.haiku",),
    "watchdog": ("service.watch", "service.observe"),
    "fastapi": ("service",),
    "huey": ("queue_config", "workers"),
}
"""Where alone a library may be imported."""


def modules():
    """Yield each module's name and its parsed text."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield name, ast.parse(path.read_text(encoding="utf-8"), str(path)), path.name == "__init__.py"


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


@pytest.mark.parametrize(
    ("module", "tree", "is_package"),
    [pytest.param(*module, id=module[0]) for module in modules()],
)
def test_a_module_imports_only_what_its_room_may(module, tree, is_package):
    assert breaches(module, imported(module, tree, is_package=is_package)) == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("pipelines.chunk", "from queue_config.settings import Settings", ["queue_config.settings.Settings"]),
        ("pipelines.chunk", "def f():\n    import torch.nn", ["torch.nn"]),
        ("pipelines.chunk", "from pipelines import model", []),
        ("pipelines.chunk", "from ..workers import tasks", ["workers.tasks"]),
        ("pipelines.store.cache", "from . import ledger; import apsw", []),
        ("pipelines.any_model", "import torch, transformers", []),
        ("pipelines.model_files", "from huggingface_hub import x", []),
        ("pipelines.embedder", "import torch", ["torch"]),
        ("queue_config.queue", "import huey; from workers.tasks import x", ["workers.tasks.x"]),
        ("workers.tasks", "from service import cli; import huey.api", ["service.cli"]),
        ("workers.tasks", "import apsw", ["apsw"]),
        ("service.query", "from workers.run import run_worker", ["workers.run.run_worker"]),
        ("service.query", "from workers import run", ["workers.run"]),
        ("service.query", "from workers.signals import x", ["workers.signals.x"]),
        ("service.query", "from workers.tasks import make_tasks; import fastapi", []),
        ("service.commands.services", "from workers.run import run_worker; import huey", ["huey"]),
        ("service.commands.ask", "from workers.run import run_worker", ["workers.run.run_worker"]),
        ("service.cli", "from workers.run import run_worker", ["workers.run.run_worker"]),
        ("service.up", "from watchdog.observers import Observer", ["watchdog.observers.Observer"]),
    ],
)
def test_the_rules_find_what_breaks_them(module, text, expected):
    assert breaches(module, imported(module, ast.parse(text))) == expected


@pytest.mark.parametrize("module", ["service.cli", "service.watch"])
def test_a_light_process_does_not_load_what_embeds(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'sentence_transformers', 'transformers'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_pipelines_types_and_errors_need_the_standard_library_only():
    for module, tree, is_package in modules():
        if module in ("pipelines.model", "pipelines.errors"):
            tops = {name.partition(".")[0] for name in imported(module, tree, is_package=is_package)}
            assert tops <= sys.stdlib_module_names
