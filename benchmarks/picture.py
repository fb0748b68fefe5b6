"""Draw docs/search.png: the search page with a question to the example vault, in headless Chromium.

python -m benchmarks.picture
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.pages import chromium, is_ready, window
from benchmarks.search import serving, wait
from pipelines.embedding.models import EMBEDDED_MODEL
from pipelines.graph.ranking import rank_domain
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from workers.resources import Resources

_PROJECT = Path(__file__).parents[1]
_QUESTION = "how do I stop lying awake at night"
_SIZE = {"width": 1000, "height": 620}


def main() -> None:
    """Index a copy of the example vault, ask, and save the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        root, state = Path(folder) / "vault", Path(folder) / "state"
        shutil.copytree(_PROJECT / "examples" / "vault", root)
        resources = Resources(Settings(vault=root, state=state))
        index_once(resources, lambda *_: None)
        for domain in resources.domains():
            rank_domain(resources.cache(domain), domain)
        browser = started.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        with serving(root, state, EMBEDDED_MODEL) as (client, process):
            wait(process, lambda: is_ready(client))
            with window(browser, client) as page:
                page.set_viewport_size(_SIZE)
                page.goto(f"/?q={_QUESTION}")  # the first question loads the model
                page.reload()
                page.screenshot(path=_PROJECT / "docs" / "search.png")
        browser.close()


if __name__ == "__main__":
    main()
