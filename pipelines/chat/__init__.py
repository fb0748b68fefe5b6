"""Conversations: the models that answer, and the check of what they quote."""
