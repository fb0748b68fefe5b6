"""The scripts that complete commands, as real shells use them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli.main import app


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_the_program_and_its_variable(shell):
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0
    assert f"_EVERINDEX_COMPLETE={shell}_complete" in done.stdout
    assert "everindex" in done.stdout


def test_another_shell_is_refused():
    done = CliRunner().invoke(app, ["completion", "tcsh"])
    assert done.exit_code == 2
    assert "bash" in done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_command(tmp_path):
    program = tmp_path / "everindex"
    program.write_text(f"#!{sys.executable}\nfrom service.cli.main import main\nmain()\n")
    program.chmod(0o755)
    script = """
    eval "$(everindex completion bash)"
    COMP_WORDS=(everindex compl); COMP_CWORD=1
    _everindex_completion everindex; echo "${COMPREPLY[@]}"
    """
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "completion\n"
