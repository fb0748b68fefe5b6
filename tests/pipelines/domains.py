"""Texts of a `_domains.yaml`, and the errors of invalid ones."""

from __future__ import annotations

import pytest

from pipelines.domains import parse
from pipelines.errors import DomainsFileError

FULL = """\
# the domains of this vault
finance:
  legacy: true
  taxonomy: _taxonomy.md
  review_queue: _review-queue.md
  embedding: BAAI/bge-large-en-v1.5
  embedding_dim: 1024
  decay:
    mode: ranked_grouped
    ladder: [1.0, 0.6, 0.45, 0.35, 0.25]
    recency_boost_days: 30
    recency_boost_amount: 0.05
    kind_overrides:
      Filings: { group_by_path_prefix: [1.0, 0.6] }
  lexical:
    weight: 0.5
fitness: { decay: { mode: off }, lexical: { weight: 0.05 } }
deep:
  path: /work/deep/
  taxonomy: tags.md
  review_queue: queue.md
  sentences: off
"""


def refusal(text):
    """Return the message with which a text is refused."""
    with pytest.raises(DomainsFileError) as caught:
        parse(text)
    return str(caught.value)
