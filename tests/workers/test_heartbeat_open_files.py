"""The limit of open files is raised as far as allowed, and said where it is too low."""

from __future__ import annotations

import resource
import subprocess
import sys

from pipelines.state.health import Problems
from workers.heartbeat import report_limit

PROGRAM = """
import resource
from workers.heartbeat import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 900))
raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_process_may_open_as_many_files_as_the_system_allows():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(900, 900)"


def test_a_limit_that_is_too_low_is_reported_until_it_is_raised(tmp_path, monkeypatch):
    problems = Problems(tmp_path)
    limit = [200]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit[0], limit[0]))
    report_limit(problems, "query")
    (said,) = problems.reported()
    assert "at most 200 files" in said.message
    limit[0] = 100_000
    report_limit(problems, "query")
    assert problems.reported() == []
    problems.close()
