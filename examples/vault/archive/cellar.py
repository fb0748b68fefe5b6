"""Small helpers for the cellar's spreadsheets."""


def round_to_tenth(value: float) -> float:
    """Round as the labels are printed: one digit, half up."""
    return int(value * 10 + 0.5) / 10


def racking_due(days_since_pressing: int, gravity_points: int) -> bool:
    """Say whether the cider should be drawn off its lees: after six weeks, or once it stands still."""
    return days_since_pressing > 42 or gravity_points <= 2
