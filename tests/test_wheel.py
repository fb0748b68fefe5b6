"""The wheel installs one name, below which every module is found, with nothing of the repository on the path."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.structure import PACKAGES

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "vault"
LIBRARIES = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
# Without `site`, which would add the repository: it is installed in an editable way.
START = f"""
import sys
sys.path[:] = [sys.argv.pop(1), *(path for path in sys.path if "-packages" not in path), *{LIBRARIES!r}]
"""
ALL_MODULES = """
import importlib, pkgutil
import everindex
for module in pkgutil.walk_packages(everindex.__path__, "everindex."):
    importlib.import_module(module.name)
    print(module.name)
print(*{name.partition(".")[0] for name in sys.modules} & {"pipelines", "queue_config", "service", "workers"})
"""
ONE_SEARCH = """
import everindex
with everindex.Vault(sys.argv[1]) as vault:
    print(vault.search("what is a moat worth", 1).results[0].path)
"""
COMMAND = """
from importlib.metadata import entry_points
sys.argv[0] = "everindex"
(command,) = entry_points(group="console_scripts", name="everindex")
command.load()()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that the wheel is installed into, without its dependencies."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run([*install, folder / "installed", wheel], check=True, capture_output=True)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names)), "a file is in the wheel twice"
    return folder / "installed"


@pytest.fixture
def run(installed, tmp_path):
    def run(code, *arguments):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", START + code, installed, *arguments],
            cwd=tmp_path,
            env={"PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_it_installs_one_name_and_its_own_example(installed):
    names = {path.name for path in installed.iterdir()} - {"bin"}
    assert "everindex" in names
    assert [name for name in names if not name.endswith(".dist-info")] == ["everindex"]
    assert (installed / "everindex" / "py.typed").is_file()
    example = installed / "everindex" / "service" / "example_vault"
    notes = {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.md")}
    assert {path.relative_to(example) for path in example.rglob("*.md")} == notes


def test_every_module_is_found_below_that_name(run):
    *names, of_the_repository = run(ALL_MODULES).split("\n")[:-1]
    assert of_the_repository == ""
    modules = sum(len(list((ROOT / name).rglob("*.py"))) for name in PACKAGES)
    assert len(names) == modules - 1  # the first is `everindex` itself


def test_no_line_of_a_module_moves(installed):
    for path in (ROOT / "pipelines").rglob("*.py"):
        ours = path.read_text(encoding="utf-8")
        theirs = (installed / "everindex" / path.relative_to(ROOT)).read_text(encoding="utf-8")
        assert theirs.replace("everindex.pipelines", "pipelines") == ours


def test_the_demo_takes_the_example_of_the_wheel(run, tmp_path):
    code = "from pathlib import Path; from everindex.service.cli.run import copy_example as c; c(Path(sys.argv[1]))"
    run(code, "vault")
    assert (tmp_path / "vault" / "Welcome.md").is_file()


def test_its_command_indexes_and_finds_and_so_does_the_library(run, tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "vault")
    assert "notes, 0 parked" in run(COMMAND, "index", "vault")
    assert "Moats and Pricing Power.md" in run(COMMAND, "search", "what is a moat worth", "--vault", "vault")
    assert run(ONE_SEARCH, "vault") == "Concepts/Moats and Pricing Power.md\n"
