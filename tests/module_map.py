"""Write the module map of docs/architecture.md from the code.

`python -m tests.module_map` renews it. A room is a folder of modules. Its public names are those that modules of other
rooms import; its sentence is the docstring of its `__init__.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.structure import ROOT, read

PACKAGES = ("queue_config", "pipelines", "workers", "service")
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- Made by `python -m tests.module_map`; do not edit below this line. -->\n"

Names = dict[str, dict[str, set[str]]]


def folder_of(module: str, trees: Mapping[str, ast.Module]) -> str:
    """Return the room of a module: itself if it is a package, else its folder."""
    is_package = any(name.startswith(f"{module}.") for name in trees)
    return module if is_package else module.rpartition(".")[0]


def used_names(tree: ast.Module, trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield the modules of ours that a module imports from, with each name that it takes from them."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if f"{node.module}.{alias.name}" in trees:
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                elif node.module in trees:
                    yield node.module, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


def public_names(trees: Mapping[str, ast.Module]) -> Names:
    """Return for each room its modules, and the names of each that other rooms use."""
    found: Names = {folder_of(module, trees): {} for module in trees}
    for user, tree in trees.items():
        for module, name in used_names(tree, trees):
            room = folder_of(module, trees)
            if room != folder_of(user, trees):
                found[room].setdefault(module, set()).add(name)
    return found


def sentence_of(tree: ast.Module) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def render(trees: Mapping[str, ast.Module]) -> str:
    """Return the map as Markdown: per room a heading, its sentence, and a line per module that others use."""
    parts = []
    for room, modules in public_names(trees).items():
        lines = [f"### `{room}`\n", f"{sentence_of(trees[room])}\n"]
        for module, names in sorted(modules.items()):
            shown = ", ".join(f"`{name}`" for name in sorted(names, key=lambda name: (name.lower(), name)))
            lines.append(f"- **{module.removeprefix(f'{room}.')}**: {shown}")
        parts.append("\n".join(lines).rstrip() + "\n")
    return "\n".join(parts)


def main() -> None:
    """Renew the map in the page."""
    before = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    PAGE.write_text(f"{before}{BEGIN}\n{render(read(*PACKAGES))}", encoding="utf-8")


if __name__ == "__main__":
    main()
