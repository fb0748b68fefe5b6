"""The vault on the disk: safe reads and writes, ignore rules, identity."""
