"""The cache of a domain: its notes, passages, words, vectors and links. It may be deleted and is built again."""
