"""A scan compared with the ledger."""

from __future__ import annotations

from .conftest import file, record


def test_a_scan_sees_what_differs_and_what_is_gone(ledger, cache):
    record(ledger, "a.md", "b.md", "c.md")
    difference = cache.ledger.compare_scan([file("a.md"), file("b.md", size=2), file("new.md")])
    assert sorted(f.path for f in difference.changed) == ["b.md", "new.md"]
    assert (difference.gone, difference.unchanged) == (["c.md"], 1)


def test_a_scan_of_a_folder_says_nothing_of_other_folders(ledger, cache):
    record(ledger, "x/a.md", "xy/b.md", "x.md", "x/y/c.md")
    assert cache.ledger.compare_scan([], "x").gone == ["x/a.md", "x/y/c.md"]
