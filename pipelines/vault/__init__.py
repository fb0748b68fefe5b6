"""The files of a vault: found, told apart, ignored, read, and written without losing anything."""
