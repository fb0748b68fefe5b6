"""From changes on the disk to commits in the index: compare, parse, embed."""
