"""Draw docs/search.png: the search page with a question to the example vault, in headless Chromium.

python -m benchmarks.picture
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.command import EXAMPLE
from benchmarks.pages import chromium, index, window
from benchmarks.running import HERE, serving, wait_until_ready
from pipelines.embedding.models import EMBEDDED_MODEL

_QUESTION = "how do I stop lying awake at night"
_SIZE = {"width": 1000, "height": 620}


def main() -> None:
    """Index a copy of the example vault, ask, and save the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        root, state = Path(folder) / "vault", Path(folder) / "state"
        shutil.copytree(EXAMPLE, root)
        index(root, state, EMBEDDED_MODEL)
        browser = started.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        with serving(root, state) as (client, process):
            wait_until_ready(client, process)
            with window(browser, client) as page:
                page.set_viewport_size(_SIZE)
                page.goto(f"/?q={_QUESTION}")  # the first question loads the model
                page.reload()
                page.screenshot(path=HERE / "docs" / "search.png")
        browser.close()


if __name__ == "__main__":
    main()
