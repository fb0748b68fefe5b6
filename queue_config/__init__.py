"""How processes are configured and how they talk."""
