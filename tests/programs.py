"""Real programs in place of the user's own, which write down how they were called."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def put_programs(folder: Path, names: Iterable[str]) -> Callable[[], list[list[str]]]:
    """Put programs of these names into a new folder; return what returns each call, as name and arguments.

    Before the first call it raises FileNotFoundError.
    """
    log = folder.with_suffix(".log")
    folder.mkdir()
    script = f"import json, sys\nprint(json.dumps(sys.argv), file=open({str(log)!r}, 'a'))\n"
    for name in names:
        (folder / name).write_text(f"#!{sys.executable}\n{script}")
        (folder / name).chmod(0o755)

    def calls() -> list[list[str]]:
        said = map(json.loads, log.read_text().splitlines())
        return [[Path(program).name, *arguments] for program, *arguments in said]

    return calls
