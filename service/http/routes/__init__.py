"""The routes of each subject: they read a request, ask a use case, and return its schema."""
