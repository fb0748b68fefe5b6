"""The types of the answers, for annotations."""

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
    "SearchAnswer",
    "SearchHit",
    "SimilarAnswer",
    "SimilarHit",
]
