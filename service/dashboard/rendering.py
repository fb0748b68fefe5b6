"""Render a dashboard page: its template, the counts in the navigation, and the policy for scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment
from starlette.responses import HTMLResponse

from service.dashboard.wording import FILTERS
from service.http.security import SCRIPTED_POLICY


class Pages:
    """The templates of the dashboard; `badges` gives the counts in the navigation."""

    def __init__(self, templates: Environment, badges: Callable[[], dict[str, int]]) -> None:
        self._templates = templates
        self._badges = badges
        templates.filters.update(FILTERS)

    def show(self, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Return a page."""
        text = self._templates.get_template(f"ops/{template}.html").render(badges=self._badges(), **context)
        return HTMLResponse(text, status, {"Content-Security-Policy": SCRIPTED_POLICY})
