"""The countable rules for modules, folders, functions and docstrings."""

import ast
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.structure import PACKAGES, folder_sizes, neighbours, read

ROOT = Path(__file__).parent.parent
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LONGEST_MODULE = 800
LONGEST_FUNCTION = 60
FULLEST_FOLDER = 20

# What is left to bring under these two rules. These figures may only go down.
NEIGHBOURS = 17
FULL_FOLDERS = {"service.cli": 21, "service.usecases": 21}
BOUNDARIES = {
    "pipelines.embedding.sentence_transformer": "libraries: torch, sentence-transformers",
    "pipelines.graph.louvain": "a process of its own, and a library: networkx",
    "service.answering": "processes of their own",
    "workers.elsewhere": "a library: psycopg, which is not always installed",
    "service.watcher.inotify": "a library: watchdog's observer of Linux, which other systems cannot import",
    **dict.fromkeys(
        (
            f"service.cli.{name}"
            for name in (
                *("agents", "chat", "context", "links", "maintenance", "notes"),
                *("quality", "search", "setup", "systemd", "tags"),
            )
        ),
        "a group of commands, which `everindex` lists",
    ),
}
"""Modules that one neighbour alone imports, and that stay: a library, a process or a store is the boundary."""

SHARED_CLASS_NAMES = {"Place"}  # of schemas that clients read: one of HTTP, one of MCP

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}

PRINTING = {
    *("print", "Console", "Text.from_markup", "sys.stdout.write", "sys.stderr.write"),
    *(f"click.{name}" for name in ("echo", "secho", "style", "prompt", "confirm")),
}

STORES = (
    *("pipelines.cache.", "pipelines.state.", "pipelines.postgres", "pipelines.sqlite"),
    *("pipelines.maintenance.databases", "pipelines.maintenance.stores"),
    "queue_config.queue",  # executes tasks
)
"""Where SQL lives."""
NO_SQL = {"stem", "FileId", "file_id"}
"""What others may have of `pipelines.sqlite`."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@pytest.fixture(scope="module")
def trees():
    return read(*PACKAGES)


def public(body, prefix=""):
    """Yield the name and node of what others may use: functions and classes, and the methods of these."""
    for node in body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{node.name}.")


def by_module(rule):
    """Return what each module that breaks a rule does, for all modules together: a test of each would cost seconds."""
    found = {path.relative_to(ROOT).as_posix(): rule(path) for path in MODULES}
    return {name: offences for name, offences in found.items() if offences}


def test_a_module_has_at_most_800_lines():
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert {path: length for path, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_a_module_that_only_its_neighbour_imports_is_part_of_it(trees):
    candidates = neighbours(trees)
    assert BOUNDARIES.keys() <= candidates.keys(), "an exception that is none"
    candidates = {module: user for module, user in candidates.items() if module not in BOUNDARIES}
    assert len(candidates) <= NEIGHBOURS, candidates


def test_a_folder_has_at_most_20_modules(trees):
    assert min(FULL_FOLDERS.values(), default=FULLEST_FOLDER + 1) > FULLEST_FOLDER, (
        "an exception that is none"
    )
    sizes = folder_sizes(trees)
    assert {f: n for f, n in sizes.items() if n > FULL_FOLDERS.get(f, FULLEST_FOLDER)} == {}


def function_lengths(path):
    """Return the length of each function; of two of one name, that of the longer one."""
    lengths = {}
    for node in ast.walk(parse(path)):
        if isinstance(node, FUNCTIONS):
            name = f"{path.relative_to(ROOT).as_posix()}:{node.name}"
            lengths[name] = max(lengths.get(name, 0), node.end_lineno - node.lineno + 1)
    return lengths


def test_a_function_has_at_most_60_lines():
    lengths = {name: n for path in MODULES for name, n in function_lengths(path).items()}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}


def undocumented(path):
    """Return what has no docstring: names that others use, and the module itself."""
    tree = parse(path)
    nodes = [("the module", tree), *public(tree.body)]
    return [name for name, node in nodes if not ast.get_docstring(node)]


def test_what_others_use_says_what_it_is():
    assert by_module(undocumented) == {}


def printing(path):
    """Return the calls that print."""
    calls = {ast.unparse(node.func) for node in ast.walk(parse(path)) if isinstance(node, ast.Call)}
    return calls & PRINTING


def test_only_the_console_prints():
    """Whatever it prints is made safe to show; what prints by itself would not be."""
    assert set(by_module(printing)) == {"service/cli/console.py"}


def event_names(tree):
    """Yield what each call that logs, or that names a trouble, has as its event."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            owner, _, level = called.rpartition(".")
            if called == "Trouble" or (level in LEVELS and owner in {"log", "structlog.get_logger()"}):
                yield node.args[0]


def varying_names(path):
    """Return the names of log events that are no constants."""
    return [ast.unparse(name) for name in event_names(parse(path)) if not isinstance(name, ast.Constant)]


def test_the_name_of_a_log_event_is_a_constant_so_that_it_can_be_searched_for():
    """What differs from one time to the next goes into fields."""
    # A Trouble logs the name that it was made with.
    assert by_module(varying_names) == {"queue_config/logs.py": ["self._what"]}


def sql(path):
    """Return how a module that is no store uses a database: connections, statements, and what runs our SQL."""
    if ".".join(path.relative_to(ROOT).with_suffix("").parts).startswith(STORES):
        return []
    nodes = list(ast.walk(parse(path)))
    attributes = {"con", "_con", "execute", "executemany"}
    return [
        ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute) and node.attr in attributes
    ] + [
        name.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "pipelines.sqlite"
        for name in node.names
        if name.name not in NO_SQL
    ]


def test_only_the_stores_know_sql():
    assert by_module(sql) == {}


def test_no_module_is_a_drawer():
    drawers = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}
    assert [path for path in MODULES if path.stem in drawers or path.parent.name in drawers] == []


def test_a_class_name_names_one_class(trees):
    classes = Counter(
        node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in classes.items() if count > 1} <= SHARED_CLASS_NAMES


def test_the_packages_that_are_built_are_these():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(PACKAGES)
    assert set(project["tool"]["mypy"]["packages"]) == {*PACKAGES, "tests", "benchmarks"}
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert sorted(found) == list(PACKAGES)
