"""The pages that a person opens in a browser."""
