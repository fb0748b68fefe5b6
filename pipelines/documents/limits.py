"""How much of a document is read; the rest is left out, and a warning says so."""

MOST_CHARACTERS = 5_000_000
MOST_PAGES = 2_000
