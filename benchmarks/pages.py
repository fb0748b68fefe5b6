"""How soon a person sees something: first paint, titles while typing, and answers, in a browser.

    python -m benchmarks.pages [--notes N ...] [--model embedded|tiny] [--rounds N]

The vaults are made up (words by Zipf's law, scale-free links), the query worker is the real one, the browser is
headless Chromium with a new window for each load. A key is pressed every 60 ms. Times are taken in the page: from the
last key until the frame with the titles is drawn, and from the request for the answers (the page waits 150 ms for
another key before it asks) until the frame with them is drawn. Without Playwright or Chromium nothing is measured.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.command import conditions, markdown, parser
from benchmarks.made_up import word, write_vault
from benchmarks.running import serving, wait_until_ready
from pipelines.embedding.models import EMBEDDED_MODEL
from pipelines.graph.ranking import rank_domain
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from tests.tiny import build_tiny_model
from workers.resources import Resources

GOALS = {
    "first paint of the search page": "100 ms",
    "first paint of a page of answers": "100 ms",
    "titles after the last key": "50 ms",
    "answers after the pause": "150 ms",
}
_WARM_UP = 3
_KEY_MS = 60
_COMMON_WORDS = 300
_PATIENCE_MS = 30_000
# Playwright runs it before the page's own scripts; the page's policy does not apply to it.
_WATCH = """
window.seen = {};
addEventListener("input", () => (window.seen = { key: performance.now() }), true);
new MutationObserver((changes) => {
  for (const { addedNodes } of changes) {
    for (const { id } of addedNodes) {
      if (id === "titles" || id === "found") {
        const { seen } = window;
        requestAnimationFrame(() => setTimeout(() => (seen[id] = performance.now())));
      }
    }
  }
}).observe(document, { childList: true, subtree: true });
"""
_PAINT = """
new Promise((painted) => new PerformanceObserver((list) => painted(list.getEntries()[0].startTime))
  .observe({ type: "paint", buffered: true }))
"""
_ASKED = """
performance.getEntriesByType("resource").filter((one) => one.name.includes("/parts/answers")).at(-1).startTime
"""


def main() -> None:
    """Build the vaults, load and type, and print a table."""
    options = parser(__doc__)
    options.add_argument("--notes", type=int, nargs="+", default=[3_000, 10_000])
    options.add_argument("--model", choices=["embedded", "tiny"], default="embedded")
    options.add_argument("--rounds", type=int, default=20)
    given = options.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("not measured: playwright is not installed")
        return
    executable = chromium()
    if executable is None:
        print("not measured: there is no Chromium on the PATH")
        return
    found: dict[str, list[str]] = {what: [] for what in GOALS}
    with sync_playwright() as started, tempfile.TemporaryDirectory() as folder:
        browser = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        model = EMBEDDED_MODEL if given.model == "embedded" else str(build_tiny_model(Path(folder)))
        for notes in given.notes:
            for what, times in measure(browser, Path(folder) / str(notes), notes, model, given.rounds):
                print(f"  {notes:,}: {what}: {shown(times)}", file=sys.stderr, flush=True)
                found[what].append(shown(times))
        browser.close()
    print(table(given.notes, found))
    print(f"\n{conditions()}, {given.model} model, {given.rounds} rounds")


def chromium() -> str | None:
    """Return the path of a Chromium that is on the PATH, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def table(sizes: list[int], found: dict[str, list[str]]) -> str:
    """Return what was measured (median / 95th percentile, by size) as a Markdown table."""
    head = ["median / 95th percentile", "goal", *(f"{size:,} notes" for size in sizes)]
    return markdown(head, [[what, GOALS[what], *cells] for what, cells in found.items()])


def shown(times: list[float]) -> str:
    """Return the median and the 95th percentile of milliseconds."""
    return f"{np.median(times):.0f} / {np.percentile(times, 95):.0f} ms"


def measure(
    browser: Any, folder: Path, notes: int, model: str, rounds: int
) -> Iterator[tuple[str, list[float]]]:
    """Index a vault, serve it, and yield the milliseconds of each round by what they are."""
    root, state = folder / "vault", folder / "state"
    write_vault(root, notes)
    index(root, state, model)
    chance = random.Random(7)  # noqa: S311 - the same questions for everyone
    questions = [
        f"{word(chance.randrange(1, _COMMON_WORDS))} {word(chance.randrange(1, _COMMON_WORDS))}"
        for _ in range(rounds + _WARM_UP)
    ]
    names = [f"note {chance.randrange(notes)}" for _ in questions]
    with serving(root, state, model) as (client, process):
        wait_until_ready(client, process)

        def times(take: Callable[[Any, str], float], texts: list[str]) -> list[float]:
            taken = []
            for text in texts:
                with window(browser, client) as page:
                    taken.append(take(page, text))
            return taken[_WARM_UP:]

        yield "first paint of the search page", times(lambda page, _: _painted(page, "/"), questions)
        yield "first paint of a page of answers", times(lambda page, q: _painted(page, f"/?q={q}"), questions)
        yield "titles after the last key", times(_titles_after, names)
        yield "answers after the pause", times(_answers_after, questions)


def index(root: Path, state: Path, model: str) -> None:
    """Index a vault, its ranks included."""
    resources = Resources(Settings(vault=root, state=state, embedding_model=model))
    index_once(resources, lambda *_: None)
    for domain in resources.domains():
        rank_domain(resources.cache(domain), domain)


@contextmanager
def window(browser: Any, client: httpx.Client) -> Iterator[Any]:
    """Open a new signed-in window."""
    context = browser.new_context(base_url=str(client.base_url))
    try:
        page = context.new_page()
        page.set_default_timeout(_PATIENCE_MS)
        page.goto(f"/open/{client.post('/session').raise_for_status().json()['code']}")
        page.wait_for_url("**/")
        page.wait_for_load_state()
        page.add_init_script(_WATCH)
        yield page
    finally:
        context.close()


def _painted(page: Any, address: str) -> float:
    page.goto(address)
    return float(page.evaluate(_PAINT))


def _type(page: Any, text: str, part: str) -> dict[str, float]:
    """Type a text; return when its last key was pressed and when a part of the page was drawn after it."""
    page.goto("/")
    page.locator("#q").press_sequentially(text, delay=_KEY_MS)
    while part not in page.evaluate("window.seen"):  # the page's policy lets no expression be waited for
        page.wait_for_timeout(_KEY_MS)
    # The drawing of an older part may have ended after the last key: what is drawn last counts.
    page.wait_for_timeout(10 * _KEY_MS)
    seen: dict[str, float] = page.evaluate("window.seen")
    return seen


def _titles_after(page: Any, text: str) -> float:
    seen = _type(page, text, "titles")
    return seen["titles"] - seen["key"]


def _answers_after(page: Any, text: str) -> float:
    seen = _type(page, text, "found")
    return seen["found"] - float(page.evaluate(_ASKED))


if __name__ == "__main__":
    main()
