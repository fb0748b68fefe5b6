"""The command line: `everindex` and its commands, one module per group."""
