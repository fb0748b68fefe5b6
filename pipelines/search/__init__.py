"""Find the notes that answer a question, rank and rate them, and say why."""
