"""Search a vault of notes from Python: `everindex.Vault(path).search("pricing power")`.

`errors` has every error that a call raises, `results` the types of the answers.
"""

from everindex import errors
from everindex.vault import AsyncVault, FilterOptions, Vault

__all__ = ["AsyncVault", "FilterOptions", "Vault", "errors"]
