"""Turn a question into ranked notes: each layer is a function from hits to hits."""
