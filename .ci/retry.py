"""Run pytest; if few tests failed, run these once more, alone. Who passes then is flaky: reported, and no failure.

VENV/bin/python .ci/retry.py OPTIONS-OF-PYTEST

Rows for tests/FLAKY.md are appended to it and printed at the end. A worker that crashed, a file that cannot be
collected and a run that was interrupted are failures as they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

MOST = 3
LIST = Path("tests/FLAKY.md")
WIDTH = 120


class Failures:
    """A plugin that notes what each failed test says, in one line, and whether more is broken than tests."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.more_is_broken = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note that a file cannot be collected."""
        self.more_is_broken |= report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that failed, was not set up, or not torn down."""
        if report.failed:
            # A worker that crashed has no phase of a test to report.
            self.more_is_broken |= report.when not in {"setup", "call", "teardown"}
            crash = getattr(report.longrepr, "reprcrash", None)
            self.said[report.nodeid] = " ".join(str(crash.message if crash else report.longrepr).split())


def row(test: str, said: str, load: float) -> str:
    """Return the row of a flaky test."""
    cells = (time.strftime("%Y-%m-%d"), test, f"{load:.1f}", said[:WIDTH])
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def report(said: dict[str, str], load: float) -> None:
    """Append flaky tests to the list, and print them loudly."""
    known = LIST.read_text(encoding="utf-8")
    rows = "".join(row(test, what, load) for test, what in said.items())
    LIST.write_text(known + rows, encoding="utf-8")
    print("!" * WIDTH, f"FLAKY: failed, and passed alone. Commit these rows of {LIST}:", "", rows, sep="\n")
    for test in said:
        if f"| {test.replace('|', '&#124;')} |" in known:
            print(f"IT STANDS THERE ALREADY, so it is mended before anything else: {test}")
    print("!" * WIDTH)


def main(options: list[str]) -> int:
    """Return 0 if all tests passed, at the second attempt at the latest; otherwise pytest's exit code."""
    failures = Failures()
    code = int(pytest.main(options, plugins=[failures]))
    load = os.getloadavg()[0]
    few = 0 < len(failures.said) <= MOST
    if code != pytest.ExitCode.TESTS_FAILED or failures.more_is_broken or not few:
        return code
    print(f"\n{len(failures.said)} failed; once more, alone:", *failures.said, sep="\n", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", *failures.said], check=False).returncode
    if not again:
        report(failures.said, load)
    return again


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
