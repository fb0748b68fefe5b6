"""What is written in a note: frontmatter, headings, links, tags, privacy."""
