"""How much of a document is read; the rest is left out, and a warning says so."""

DEEPEST = 100
"""Levels of nesting of JSON, YAML, metadata and symbols."""
MOST_CELLS = 100_000
MOST_CHARACTERS = 5_000_000
MOST_PAGES = 2_000
MOST_SCANNED_PAGES = 20
"""Pages of a file that are read by OCR. A page full of print takes 2 to 3 seconds."""
MOST_SCANNING_SECONDS = 90.0
"""Seconds of computing after which no further page is read by OCR, so that a slow machine gives what it has read."""
MOST_UNPACKED = 200_000_000
"""Bytes of all members of an archive together; a larger one is refused."""
