"""How much longer a question takes over `everindex mcp` (standard streams) than over HTTP, at one running service.

python -m benchmarks.mcp [--questions N]

The example vault with the embedded model. Each question is asked once over each transport, in turn, with the
official client library, so that both meet the same state of caches and of the machine; `GET /search` is beside them.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import numpy as np
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.search import serving
from pipelines.embedding.models import EMBEDDED_MODEL
from service.runtime.client import read_token

_VAULT = Path(__file__).parents[1] / "examples" / "vault"
_WARM_UP = 20
_PATIENCE = 120.0
_WANTED_MS = 10.0
_WORDS = (
    *("sleep", "caffeine", "moat", "pricing power", "dilution", "deload week", "protein", "lentils", "salt"),
    *("margin of safety", "working capital", "attention", "spaced repetition", "error codes", "race day"),
)
_FORMS = (
    *("what do I know about {} and {}", "how does {} change {}", "when did I write about {} with {}"),
    *("why is {} more important than {}", "what is the rule for {} after {}"),
)


def questions(count: int) -> list[str]:
    """Return distinct questions; transports take turns as the first one to ask, which has the question encoded."""
    made = [form.format(a, b) for form in _FORMS for a in _WORDS for b in _WORDS if a != b]
    return made[:: max(1, len(made) // count)][:count]


@asynccontextmanager
async def clients(address: str, root: Path, state: Path) -> AsyncIterator[dict[str, Client]]:
    """Yield a client over each transport."""
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "service.cli", "mcp", "--vault", str(root), "--state", str(state)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    async with AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {read_token(state)}"}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
        over_http = Client(streamable_http_client(f"{address}/mcp", http_client=http))
        yield {
            "MCP over HTTP": await stack.enter_async_context(over_http),
            "MCP over stdio": await stack.enter_async_context(Client(stdio_client(program))),
        }


async def ask(
    asked: list[str], by_name: dict[str, Client], plain: httpx2.AsyncClient
) -> dict[str, list[float]]:
    """Ask every question over each transport, the order changing; return the milliseconds of each."""
    took: dict[str, list[float]] = {name: [] for name in (*by_name, "GET /search")}
    for number, question in enumerate(asked):
        names = list(took)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.perf_counter()
            if name in by_name:
                result: Any = await by_name[name].call_tool("search", {"query": question})
                if result.is_error:
                    raise SystemExit(f"{name}: {result.content}")
            else:
                (await plain.get("/search", params={"q": question})).raise_for_status()
            took[name].append((time.perf_counter() - began) * 1e3)
    return {name: times[_WARM_UP:] for name, times in took.items()}


def measure(count: int) -> dict[str, list[float]]:
    """Index the example vault, serve it, and ask."""
    with tempfile.TemporaryDirectory() as base:
        root, state = Path(base) / "vault", Path(base) / "state"
        shutil.copytree(_VAULT, root)
        place = ["--vault", str(root), "--state", str(state)]
        subprocess.run(
            [sys.executable, "-m", "service.cli", "index", *place], check=True, capture_output=True
        )
        with serving(root, state, EMBEDDED_MODEL) as (plain, _):
            until = time.monotonic() + _PATIENCE
            while time.monotonic() < until and not _is_ready(plain):
                time.sleep(0.2)

            async def asking() -> dict[str, list[float]]:
                address, headers = str(plain.base_url).rstrip("/"), dict(plain.headers)
                async with (
                    clients(address, root, state) as by_name,
                    httpx2.AsyncClient(base_url=address, headers=headers, timeout=60) as direct,
                ):
                    return await ask(questions(count + _WARM_UP), by_name, direct)

            return anyio.run(asking)


def _is_ready(plain: httpx.Client) -> bool:
    try:
        return plain.get("/ready").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def main() -> None:
    """Print a table: median and 95th percentile of each transport, and the difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=200)
    took = measure(parser.parse_args().questions)
    load = os.getloadavg()[0]
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, load {load:.1f}")
    for name, times in took.items():
        p95 = float(np.percentile(times, 95))
        print(f"{name}: median {statistics.median(times):.1f} ms, 95th {p95:.1f} ms, {len(times)} questions")
    more = statistics.median(took["MCP over stdio"]) - statistics.median(took["MCP over HTTP"])
    print(f"stdio - HTTP, medians: {more:+.1f} ms (wanted: within {_WANTED_MS:.0f})")


if __name__ == "__main__":
    main()
