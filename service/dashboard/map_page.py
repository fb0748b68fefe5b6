"""The page that draws the map of links."""

from __future__ import annotations

from fastapi.responses import HTMLResponse
from jinja2 import Environment

from service.http.security import SCRIPTED_POLICY


def graph_page(templates: Environment) -> HTMLResponse:
    """Return the map. Its script asks the same address again, for JSON."""
    return HTMLResponse(
        templates.get_template("graph.html").render(),
        headers={"Content-Security-Policy": SCRIPTED_POLICY, "Vary": "Accept"},
    )
