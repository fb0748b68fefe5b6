"""The Model Context Protocol: the vault's tools, resources and prompts for agents."""
