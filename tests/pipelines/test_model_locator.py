import pytest

from pipelines.model import Locator


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (Locator("page", "", 3, 3), "p. 3"),
        (Locator("page", "", 3, 5), "pp. 3-5"),
        (Locator("slide", "", 2, 2), "slide 2"),
        (Locator("cell", "", 4, 6), "cells 4-6"),
        (Locator("rows", "Costs", 21, 40), "[Costs] rows 21-40"),
        (Locator("rows", "", 2, 2), "row 2"),
        (Locator("key", "thesis.summary"), "thesis.summary"),
        (Locator("key", "thesis.summary", 12, 12), "thesis.summary"),
        (Locator("key", "", 1, 1), "top level"),
        (Locator("symbol", "Cache.open", 80, 97), "Cache.open"),
        (Locator("card"), "card"),
    ],
)
def test_a_place_is_shown_as_people_write_it(place, shown):
    assert place.shown() == shown


def test_a_stored_place_comes_back_unchanged():
    place = Locator("rows", "Größe [1]", 1, 20)
    assert Locator.from_json(place.as_json()) == place
