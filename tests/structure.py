"""Measure the structure of a package from its imports: rooms, arrows, floors, circles.

`python -m tests.structure [package]` prints the figures. A room is a folder, or a module that lies directly in the
package. An arrow runs from a room to another that it imports. A name that a module only re-exports counts as imported
from the module that defines it. A floor is the longest path of arrows below a room.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LONG_FUNCTION = 60

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


def main() -> None:
    """Print the figures of the packages that are named, or of all."""
    for package in sys.argv[1:] or ("service", "pipelines", "workers", "queue_config"):
        print(package, measure(package))  # noqa: T201 - a script's output
        for room, below in sorted(rooms(read(package)).items()):
            print(f"  {room} -> {', '.join(sorted(below)) or '-'}")  # noqa: T201 - likewise


if __name__ == "__main__":
    main()
