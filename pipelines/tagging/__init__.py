"""Tags: a controlled vocabulary, proposals, the operator's queue, promotion into notes."""
