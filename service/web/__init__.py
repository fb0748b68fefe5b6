"""The pages that a person sees: search, notes, the map, and the operator's dashboard."""
