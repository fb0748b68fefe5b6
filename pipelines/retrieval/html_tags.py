"""Remove HTML tags from a note's text."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(?P<slash>/?)(?P<name>[A-Za-z][\w.-]*)(?P<rest>(?:\s[^<>]*)?/?)>")
_INLINE = re.compile(
    "a|abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|strike|strong|sub"
    "|time|tt|u|var|wbr"
)
_BLOCK = re.compile(
    "article|aside|blockquote|body|br|button|caption|center|col|dd|details|div|dl|dt|figcaption|figure|footer|form"
    "|h[1-6]|head|header|hr|html|iframe|img|input|li|link|main|meta|nav|object|ol|option|p|path|picture|pre|script"
    "|section|select|source|style|summary|svg|table|tbody|td|textarea|tfoot|th|thead|tr|ul|video"
)


def without_tags(text: str, filler: str) -> str:
    """Return a text of the same length with its HTML tags replaced by a filler.

    Tags are those that HTML defines, and others that are closed or have an attribute; `<your name>` and `Vec<u8>` are
    text. A block tag leaves a space, so that words stay separate, and `<sup>` leaves `^`.
    """

    def change(match: re.Match[str]) -> str:
        name = match["name"].lower()
        if name == "sup":
            return ("" if match["slash"] else "^").ljust(len(match[0]), filler)
        if _INLINE.fullmatch(name):
            return filler * len(match[0])
        marked = match["slash"] or match["rest"].endswith("/") or "=" in match["rest"]
        known = marked or _BLOCK.fullmatch(name) or f"</{match['name']}>" in text
        return " ".ljust(len(match[0]), filler) if known else match[0]

    return _TAG.sub(change, text)
