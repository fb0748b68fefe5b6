"""The command that adds an extra to this installation of Everindex."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import distribution
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit


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
