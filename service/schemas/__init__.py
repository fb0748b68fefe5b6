"""The answers of the API, as pydantic models."""
