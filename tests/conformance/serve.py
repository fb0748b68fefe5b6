"""Serve a vault at `/mcp` for the conformance suite: our server as it is, or with what the suite calls.

python -m tests.conformance.serve FOLDER PORT [--fixtures]

The suite sends no token. The guard stays in front of the server, and the token is added before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn

from queue_config.settings import Settings
from service.app import create_app
from service.http.server import StreamEndingServer
from service.mcp import server
from service.runtime.client import read_token
from tests.conformance.fixtures import with_fixtures


def authorized(app, token):
    """Return the application, with the token on each request."""

    async def serve(scope, receive, send):
        if scope["type"] == "http":
            own = (b"authorization", f"Bearer {token}".encode())
            scope = {**scope, "headers": [*scope["headers"], own]}
        await app(scope, receive, send)

    return serve


def main(folder, port, *options):
    """Serve until a signal."""
    settings = Settings(vault=Path(folder) / "vault", state=Path(folder) / "state", port=int(port))
    if "--fixtures" in options:
        make = server.make_server
        server.make_server = lambda library: with_fixtures(make(library))
    app = create_app(settings, int(port))
    config = uvicorn.Config(
        authorized(app, read_token(settings.state)), port=int(port), log_level="warning", ws="none"
    )
    StreamEndingServer(config).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
