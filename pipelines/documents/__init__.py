"""Files that are not Markdown, read into one shape: text in blocks, each with its place in the file."""
