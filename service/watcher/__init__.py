"""The process that watches the vault for saved files."""
