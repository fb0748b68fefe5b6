"""Raise the limit of open files per process as far as allowed, and report it if it is too low."""

from __future__ import annotations

import resource

import psutil

from pipelines.state.health import Problems

PROBLEM = "open-files"
# About two dozen threads, each with a few databases of three files.
_ENOUGH = 512
_NEARLY_ALL = 0.8


def raise_limit() -> None:
    """Let this process open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def report_limit(problems: Problems, role: str) -> None:
    """Report a limit that is too low or nearly used up; otherwise clear the report. Raises CacheError."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = psutil.Process().num_fds()
    if limit != resource.RLIM_INFINITY and (limit < _ENOUGH or used > _NEARLY_ALL * limit):
        problems.report(
            PROBLEM,
            role,
            f"the {role} may open at most {limit} files: questions and saves will fail when these are used"
            " up; raise the limit (`ulimit -n`, or LimitNOFILE of systemd) and restart it",
        )
    else:
        problems.clear(PROBLEM, role)
