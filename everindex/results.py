"""The types of the answers, for annotations."""

from everindex.vault import NoteLinks
from service.schemas.context import ContextAnswer, ContextPassage
from service.schemas.notes import IndexAnswer, NodeAnswer
from service.schemas.operations import Health
from service.schemas.search import SearchAnswer, SearchHit, SimilarAnswer, SimilarHit

__all__ = [
    "ContextAnswer",
    "ContextPassage",
    "Health",
    "IndexAnswer",
    "NodeAnswer",
    "NoteLinks",
    "SearchAnswer",
    "SearchHit",
    "SimilarAnswer",
    "SimilarHit",
]
