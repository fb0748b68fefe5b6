"""A block of passages for a language model, within a budget of tokens: pure functions over plain values."""
