"""What the text of a note says: properties, headings, links, tags, passages, and the words that are searched."""
