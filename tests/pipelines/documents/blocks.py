"""What the tests of readers compare: the blocks of a document as plain tuples."""


def blocks_of(document):
    """Return each block's text, headings and place as a person writes it."""
    return [
        (
            document.text[block.start : block.end],
            block.headings,
            block.place.shown() if block.place else None,
        )
        for block in document.blocks
    ]


def links_of(document):
    """Return each link's target, fragment, shown text, whether it embeds, and its line."""
    return [
        (link.target, link.fragment, link.text, link.embed, line_at(document.text, link.at))
        for link in document.links
    ]


def line_at(text, offset):
    return text[text.rfind("\n", 0, offset) + 1 :].partition("\n")[0]
