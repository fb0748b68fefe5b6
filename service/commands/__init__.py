"""The commands of `everindex`, each module one group of them."""
