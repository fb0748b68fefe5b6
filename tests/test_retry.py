"""What fails and then passes alone is listed, and fails no run of `.ci/run`; everything else that fails does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "retry.py"
FLAKY = """
import pathlib, pytest
@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    seen = pathlib.Path(f"seen-{{number}}")
    if not seen.exists():
        seen.touch()
        raise ValueError("a | race")
"""
BROKEN = "def test_broken(): assert False"
CRASHING = """
import os, pathlib
def test_crash():
    seen = pathlib.Path("crashed")
    if not seen.exists():
        seen.touch()
        os._exit(1)
"""
HEAD = "| date | test | load | what it said |\n|---|---|---|---|\n"


@pytest.fixture
def run(tmp_path):
    """Run the tests of two files by the script: its exit code, what it prints, and the rows of the list."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "FLAKY.md").write_text(HEAD)
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def call(flaky, other=""):
        (tests / "test_one.py").write_text(flaky)
        (tests / "test_two.py").write_text(other)
        line = [sys.executable, SCRIPT, "-p", "xdist.plugin", "--numprocesses", "1"]
        done = subprocess.run(
            line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        rows = (tests / "FLAKY.md").read_text().removeprefix(HEAD).splitlines()
        return done.returncode, done.stdout, rows

    return call


def test_a_test_that_passes_alone_is_listed_and_fails_no_run_and_is_named_when_it_comes_again(run, tmp_path):
    code, said, (row,) = run(FLAKY.format(flaky=1))
    assert code == 0
    assert "tests/test_one.py::test_flaky[0]" in row
    assert "ValueError: a &#124; race" in row
    assert row in said
    assert "IT STANDS THERE ALREADY" not in said
    (tmp_path / "seen-0").unlink()
    code, said, rows = run(FLAKY.format(flaky=1))
    assert (code, len(rows)) == (0, 2)
    assert "IT STANDS THERE ALREADY, so it is mended before anything else: tests/test_one.py" in said


@pytest.mark.parametrize(
    ("flaky", "other"),
    [(1, BROKEN), (4, ""), (1, "import nothing"), (1, CRASHING)],
    ids=["a broken test", "four that are flaky", "a file that cannot be collected", "a crash"],
)
def test_what_is_more_than_three_flaky_tests_fails(run, flaky, other):
    code, said, rows = run(FLAKY.format(flaky=flaky), other)
    assert (code, rows) == (1, [])
    assert "FLAKY:" not in said
