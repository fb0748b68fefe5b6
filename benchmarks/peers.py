"""Everindex and the products nearest to it, measured in turn on the same notes.

    python -m benchmarks.peers [--tools FOLDER] [--data FOLDER] [--sets NAME NAME] [--python 3.12]

Each product is installed from PyPI or npm into a folder of its own (`--tools` keeps them), so this benchmark needs
the network. One that cannot be installed or started is left out, with the reason. The first set is indexed, asked and
changed; the other is only indexed and asked. No model is downloaded: products that can use an endpoint for embeddings
get one with Everindex's model. qmd cannot, and is measured by word.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
from rich.console import Console

from benchmarks.judged import DATA
from benchmarks.peer_endpoint import Endpoint, embedding_endpoint
from benchmarks.peer_install import Installed, install
from benchmarks.peer_measures import measure, measure_quality, tree_memory, write_batch, write_set
from benchmarks.peer_product import Product
from benchmarks.peer_products import PRODUCTS
from benchmarks.quality import markdown

_SETS = ("cranfield", "anthropic-docs")
_EXPECTED = (OSError, RuntimeError, LookupError, ValueError, httpx.HTTPError, subprocess.CalledProcessError)


def about(product: type[Product], installed: Installed) -> Iterator[tuple[str, str]]:
    """Yield what a product is and how it is asked."""
    yield "version", installed.version
    yield "released", installed.released or "–"
    yield "on disk", f"{installed.size / 1_000_000:,.0f} MB"
    yield "asked by", product.asked_by
    yield "searches by", "word and meaning" if product.meaning else "word"


def compare(
    product: type[Product], tools: Path, data: Path, sets: Sequence[str], endpoint: Endpoint
) -> Iterator[tuple[str, str]]:
    """Measure a product on sets, each in a vault of its own; yield the rows."""
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(sets):
            root, home = Path(folder, f"{name}-vault"), Path(folder, f"{name}-home")
            judged = write_set(name, data, root)
            one = product(tools, root, home, endpoint.url)
            if number == 0:
                write_batch(root)
                yield from measure(one, judged, endpoint)
            else:
                yield from measure_quality(one, judged)


def table(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the rows of all products as a table in Markdown, with a dash for what a product lacks."""
    rows = dict.fromkeys(row for rows in found.values() for row in rows)
    cells = [[row, *(values.get(row, "–") for values in found.values())] for row in rows]
    return markdown(["", *found], cells)


def _reason(error: BaseException) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return " ".join(str(said).split())[-300:]


def run(
    names: Iterable[str], tools: Path, python: str, data: Path, sets: Sequence[str], console: Console
) -> dict[str, dict[str, str]]:
    """Install and measure the products of these names; return the rows by product. Says what it leaves out."""
    found: dict[str, dict[str, str]] = {}
    with embedding_endpoint() as endpoint:
        endpoint.embed(["A note about gardens."])
        console.print(f"the endpoint with its model: {tree_memory(psutil.Process()) / 1_000_000:.0f} MB")
        for product in (product for product in PRODUCTS if product.name in names):
            try:
                rows = found[product.name] = dict(about(product, install(product.package, tools, python)))
                for row, value in compare(product, tools, data, sets, endpoint):
                    rows[row] = value
                    console.print(f"{product.name}: {row}: {value} (load {os.getloadavg()[0]:.1f})")
            except _EXPECTED as error:
                console.print(f"{product.name} is left out from here: {_reason(error)}")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [product.name for product in PRODUCTS]
    parser.add_argument("products", nargs="*", default=every, metavar="PRODUCT", help=", ".join(every))
    parser.add_argument("--tools", type=Path, help="where products are, or are put, to be kept")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", nargs="+", default=_SETS)
    parser.add_argument(
        "--python", default="3.12", help="for products that want 3.12 or newer: a version or a path"
    )
    given = parser.parse_args()
    console = Console(soft_wrap=True, markup=False, highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        tools = (given.tools or Path(folder)).resolve()
        found = run(given.products, tools, given.python, given.data, given.sets, console)
    console.print(f"\n{table(found)}\n")
    console.print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.machine()}")


if __name__ == "__main__":
    main()
