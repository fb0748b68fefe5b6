"""Rewrite the imports of the packages that the wheel has below `everindex`.

The repository says `from pipelines.model import Note`, the wheel `from everindex.pipelines.model import Note`. Only
import statements are rewritten, so the code names its modules by `__name__`, `__package__` and `__file__`.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "everindex"
MOVED = ("pipelines", "queue_config", "service", "workers")


def rewritten(source: bytes) -> bytes:
    """Return a module with its imports of moved packages from `everindex`; no line moves. Raises SyntaxError."""
    lines = source.split(b"\n")
    # From the end, so that an insertion moves no place that comes later.
    for line, column in sorted(_places(ast.parse(source)), reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + f"{NAME}.".encode() + text[column:]
    return b"\n".join(lines)


def _places(tree: ast.Module) -> list[tuple[int, int]]:
    """Return line (from 1) and byte (from 0) of each name of a moved package in an import. Raises SyntaxError."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_moved(node.module or ""):
            found.append((node.lineno, node.col_offset + len("from ")))
        elif isinstance(node, ast.Import):
            for one in node.names:
                if _is_moved(one.name) and not one.asname:
                    raise SyntaxError(
                        f"line {one.lineno}: `import {one.name}` binds another name in the wheel"
                    )
                if _is_moved(one.name):
                    found.append((one.lineno, one.col_offset))
    return found


def _is_moved(module: str) -> bool:
    return module.partition(".")[0] in MOVED


class ImportsRewritten(BuildHookInterface):  # type: ignore[type-arg]
    """Replaces modules by rewritten ones; an editable installation has the repository as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the rewritten modules into a temporary folder, and have the wheel made of them."""
        if version == "editable":
            return
        root = Path(self.root)
        # What `everindex demo` serves.
        build_data["force_include"][str(root / "examples" / "vault")] = f"{NAME}/service/example_vault"
        self._folder = Path(tempfile.mkdtemp(prefix="everindex-wheel-"))
        for package in (NAME, *MOVED):
            for path in sorted((root / package).rglob("*.py")):
                inside = path.relative_to(root)
                target = self._folder / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(rewritten(path.read_bytes()))
                place = inside if package == NAME else NAME / inside
                build_data["force_include"][str(target)] = place.as_posix()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder."""
        if version != "editable":
            shutil.rmtree(self._folder)
