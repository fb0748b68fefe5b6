"""Measure the structure of a package from its imports: rooms, arrows, floors, circles.

`python -m tests.structure [package]` prints the figures. A room is a folder, or a module that lies directly in the
package. An arrow runs from a room to another that it imports. A name that a module only re-exports counts as imported
from the module that defines it. A floor is the longest path of arrows below a room. What all packages that are named
have in common comes first: their lines by kind, the lengths of modules and functions, and what has one user.
"""

from __future__ import annotations

import ast
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LONG_FUNCTION = 60
PACKAGES = ("everindex", "pipelines", "queue_config", "service", "workers")

Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Figures:
    """The structure of a package in numbers; `circles` names the rooms, then the modules, that form loops."""

    modules: int
    largest: tuple[int, str]
    long_functions: dict[str, int]
    rooms: int
    floors: int
    arrows: int
    circles: list[tuple[str, ...]]


def read(*packages: str, root: Path = ROOT) -> dict[str, ast.Module]:
    """Return the parsed modules of packages by their dotted names."""
    trees = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if path.name == "__init__.py" else parts)
            trees[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return trees


def imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return for each module the modules of `trees` that define what it imports."""
    handed_on = {name: dict(_imported(tree)) for name, tree in trees.items()}

    def home(module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> str:
        if f"{module}.{name}" in trees:
            return f"{module}.{name}"
        source = handed_on.get(module, {}).get(name)
        if source and source[0] in trees and source not in seen:
            return home(*source, seen | {source})
        return module

    found: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for module, imported in _sources(tree):
            if module in trees:
                found[name].add(home(module, imported) if imported else module)
        found[name].discard(name)
    return found


def _sources(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def _imported(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield what a module binds by imports at its top level: name, and where it is from."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((alias.asname or alias.name, (node.module, alias.name)) for alias in node.names)


def room_of(module: str, packages: set[str]) -> str:
    """Return the folder in which a module lies, or the module itself if that is the outermost package."""
    folder = module if module in packages else module.rpartition(".")[0]
    return module if "." not in folder else folder


def rooms(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return for each room the rooms that it imports; an outermost `__init__` is none."""
    packages = {name.rpartition(".")[0] for name in trees}
    arrows: dict[str, set[str]] = {}
    for module, targets in imports(trees).items():
        if "." in module:
            room = room_of(module, packages)
            below = {room_of(target, packages) for target in targets if "." in target}
            arrows.setdefault(room, set()).update(below - {room})
    return arrows


def floors(graph: Graph) -> dict[str, int]:
    """Return the floor of each node; the ground is 1. Raises graphlib.CycleError if there is a circle."""
    found: dict[str, int] = {}
    for node in TopologicalSorter(graph).static_order():
        found[node] = 1 + max((found[below] for below in graph.get(node, ())), default=0)
    return found


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """Return a circle of a graph, if it has any."""
    try:
        floors(graph)
    except CycleError as error:
        return [tuple(error.args[1])]
    return []


def measure(package: str, root: Path = ROOT) -> Figures:
    """Count a package's modules, long functions, rooms, arrows and floors."""
    trees = read(package, root=root)
    graph = rooms(trees)
    loops = circles(graph) + circles(imports(trees))
    lengths = {
        f"{name}.{node.name}": node.end_lineno - node.lineno + 1
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and node.end_lineno is not None
    }
    sizes = [
        (path.read_text(encoding="utf-8").count("\n"), path.relative_to(root).as_posix())
        for path in (root / package).rglob("*.py")
    ]
    return Figures(
        modules=len(trees),
        largest=max(sizes),
        long_functions={name: length for name, length in lengths.items() if length > LONG_FUNCTION},
        rooms=len(graph),
        floors=max(floors(graph).values()) if not loops else 0,
        arrows=sum(len(below) for below in graph.values()),
        circles=loops,
    )


def neighbours(trees: Mapping[str, ast.Module]) -> dict[str, str]:
    """Return each module that only one other imports, if both lie in one folder, with that other one."""
    packages = {name.rpartition(".")[0] for name in trees}
    return {
        module: users[0]
        for module, users in importers(trees).items()
        if len(users) == 1 and module not in packages and _folder(module) == _folder(users[0])
    }


def importers(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return for each module the modules that import it."""
    found: dict[str, list[str]] = {name: [] for name in trees}
    for name, targets in imports(trees).items():
        for target in targets:
            found[target].append(name)
    return found


def _folder(module: str) -> str:
    return module.rpartition(".")[0]


def folder_sizes(trees: Mapping[str, ast.Module]) -> Counter[str]:
    """Return how many modules lie in each folder; its `__init__` is none."""
    packages = {_folder(name) for name in trees}
    return Counter(_folder(name) for name in trees if name not in packages and "." in name)


def line_kinds(text: str) -> Counter[str]:
    """Count the lines of a module by kind: docstring, import, blank, comment, code."""
    lines = text.splitlines()
    kinds = {number: "code" if line.strip() else "blank" for number, line in enumerate(lines, 1)}
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            kinds[token.start[0]] = "comment"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(node):
            kinds |= dict.fromkeys(_span(node.body[0]), "docstring")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            kinds |= dict.fromkeys(_span(node), "import")
    return Counter(kinds.values())


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def called_once(trees: Mapping[str, ast.Module]) -> dict[str, int]:
    """Return the length of each private function that its module names once, to call it; methods are left out."""
    found = {}
    for module, tree in trees.items():
        nodes = list(ast.walk(tree))
        names = Counter(node.id for node in nodes if isinstance(node, ast.Name))
        called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        for node in tree.body:
            if not isinstance(node, FUNCTIONS):
                continue
            if node.name.startswith("_") and names[node.name] == 1 and node.name in called:
                found[f"{module}.{node.name}"] = len(_span(node))
    return found


def summary(packages: tuple[str, ...], root: Path = ROOT) -> str:
    """Return the figures that packages have together, a line each."""
    trees = read(*packages, root=root)
    texts = [path.read_text(encoding="utf-8") for name in packages for path in (root / name).rglob("*.py")]
    lengths = sorted(text.count("\n") for text in texts)
    kinds = sum(map(line_kinds, texts), Counter[str]())
    functions = [len(_span(n)) for tree in trees.values() for n in ast.walk(tree) if isinstance(n, FUNCTIONS)]
    once = called_once(trees)
    with_one = sum(len(users) == 1 for users in importers(trees).values())
    return "\n".join(
        (
            f"modules {len(texts)}, median {statistics.median(lengths):.0f} lines, longest {lengths[-1]}",
            f"lines {kinds.total()}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
            f"modules with one importer {with_one}, in the same folder {len(neighbours(trees))}",
            f"full folders {dict(folder_sizes(trees).most_common(5))}",
            f"functions {len(functions)}, longer than {LONG_FUNCTION} lines {sum(n > LONG_FUNCTION for n in functions)}",
            f"private functions that are called once {len(once)}, with {sum(once.values())} lines",
        )
    )


def main() -> None:
    """Print the figures of the packages that are named, or of all."""
    packages = tuple(sys.argv[1:]) or PACKAGES
    print(summary(packages))  # noqa: T201 - a script's output
    for package in packages:
        print(package, measure(package))  # noqa: T201 - likewise
        for room, below in sorted(rooms(read(package)).items()):
            print(f"  {room} -> {', '.join(sorted(below)) or '-'}")  # noqa: T201 - likewise


if __name__ == "__main__":
    main()
