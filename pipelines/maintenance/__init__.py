"""Check, repair, back up and rebuild what is stored."""
