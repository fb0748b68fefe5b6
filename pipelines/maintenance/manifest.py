"""The manifest of a backup."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipelines.store.state_file import cache_name

MANIFEST = "manifest.json"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CacheMember(_Strict):
    """A domain's cache in a backup."""

    domain: Annotated[str, Field(pattern=r"^[\w-]{1,100}$")]
    number: Annotated[int, Field(ge=1)]
    model: str
    dimension: int
    schema_version: int
    size: Annotated[int, Field(ge=1)]
    sha256: str

    @property
    def name(self) -> str:
        """The name of the cache's file."""
        return cache_name(self.domain, self.number)


class StateMember(_Strict):
    """`state.db` in a backup."""

    size: Annotated[int, Field(ge=1)]
    sha256: str
    name: Literal["state.db"] = "state.db"


class Manifest(_Strict):
    """What a backup contains, of which vault, and when and by which version it was made."""

    format: Literal[1] = 1
    everindex: str
    created: str
    vault_id: str
    root: str
    state: StateMember
    caches: tuple[CacheMember, ...]

    @property
    def members(self) -> tuple[StateMember | CacheMember, ...]:
        """The members that follow the manifest in the archive, in this order."""
        return (self.state, *self.caches)

    @field_validator("caches")
    @classmethod
    def _one_a_domain(cls, caches: tuple[CacheMember, ...]) -> tuple[CacheMember, ...]:
        if len({cache.domain for cache in caches}) < len(caches):
            raise ValueError("a domain has two caches")
        return caches
