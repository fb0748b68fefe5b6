"""From a question to ranked notes: each layer a function from hits to hits."""
