"""Turn the sugar that a refractometer shows into the alcohol that a cider may reach."""

from cellar import round_to_tenth

POTENTIAL = 0.57  # percent of alcohol by volume for each degree Brix, dry


def potential_alcohol(brix: float, residual: float = 0.0) -> float:
    """Return percent by volume if all sugar but the residual ferments."""
    if residual > brix:
        raise ValueError("more sugar would remain than there was")
    return round_to_tenth((brix - residual) * POTENTIAL)


class MustBlend:
    """Several musts in one vessel."""

    def __init__(self) -> None:
        self.parts: list[tuple[float, float]] = []

    def pour(self, litres: float, brix: float) -> None:
        """Add a must by its volume and sugar."""
        self.parts.append((litres, brix))

    def blended_brix(self) -> float:
        """Return the sugar of the blend, weighted by volume."""
        total = sum(litres for litres, _ in self.parts)
        return round_to_tenth(sum(litres * brix for litres, brix in self.parts) / total)
