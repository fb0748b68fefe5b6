"""How tags that wait are listed."""

from __future__ import annotations

from click.testing import CliRunner

from service.cli import app


class Service:
    def call(self, *_, **__):
        waiting = [("a.md", "soil"), ("b.md", "soil"), ("a.md", "compost")]
        return {
            "proposals": [
                {
                    "domain": "garden",
                    "path": path,
                    "tag": tag,
                    "group": "",
                    "confidence": 0.9,
                    "proposer": "local",
                }
                for path, tag in waiting
            ],
            "spent_today": {"notes": 0, "dollars": 0.0},
        }


def test_a_note_is_listed_once_with_all_the_tags_that_wait_for_it(monkeypatch):
    monkeypatch.setattr("service.commands.tags.need_service", lambda _: Service())
    lines = CliRunner().invoke(app, ["tags", "list"]).output.splitlines()
    assert lines == ["a.md", "  soil  90% local", "  compost  90% local", "b.md", "  soil  90% local"]
