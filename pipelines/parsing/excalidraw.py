"""Find what the Excalidraw plugin keeps in a note besides words.

At the end of the note, below its text and links, is the drawing as JSON, usually compressed and in base64. As text it
would be most of the note and say nothing.
"""

import re
from collections.abc import Mapping

PROPERTY = "excalidraw-plugin"
HEADINGS = frozenset({"Excalidraw Data", "Text Elements"})
"""The plugin's first headings, which name no note."""

_LINE_END = r"[ \t]*(?:\r\n?|\n)"
_DRAWING = re.compile(
    rf"^(?P<comment>%%{_LINE_END}\s*+)?##? Drawing{_LINE_END}\s*+```(?:compressed-)?json\b", re.MULTILINE
)
_NOTHING = re.compile(r"\s*+(?:%%)?\s*+\Z")


def drawing_start(text: str, body_start: int, properties: Mapping[str, object]) -> int:
    """Return the offset of the drawing with which a note's body ends, its opening `%%` included, or the body's end.

    A note without the plugin's property has a drawing only if it is in a comment.
    """
    for found in _DRAWING.finditer(text, body_start) if " Drawing" in text else ():
        closing = text.find("\n```", found.end())
        is_last = closing < 0 or _NOTHING.match(text, closing + len("\n```"))
        if is_last and (PROPERTY in properties or found["comment"]):
            return found.start()
    return len(text)
