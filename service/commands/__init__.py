"""The commands of `everindex`, one module per group."""
