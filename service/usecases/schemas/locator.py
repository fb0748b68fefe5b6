"""Where in a file a passage is, by the kind of the place."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Lines(BaseModel):
    """The lines of a text file, from the first to the last, which are counted from 1."""

    kind: Literal["lines"] = "lines"
    first: int = Field(ge=1)
    last: int = Field(ge=1)


Locator = Lines
"""Any kind of place. Lines are the first kind; a client reads `kind` before it reads the rest."""
