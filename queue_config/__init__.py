"""Configuration of the processes, and the queue between them."""
