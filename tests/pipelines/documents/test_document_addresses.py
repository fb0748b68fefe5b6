import pytest

from pipelines.documents.document import file_at


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("notes.html", ("notes.html", "")),
        (" a%20b/c.pdf?download=1#page=2 ", ("a b/c.pdf", "page=2")),
        ("../up.md#part?", ("../up.md", "part?")),
        ("#here", None),
        ("?only=query", None),
        ("", None),
        ("https://example.org/a.pdf", None),
        ("//example.org/a.pdf", None),
        ("mailto:ana@example.org", None),
        ("data:image/png;base64,AAAA", None),
        ("C:\\Users\\a.pdf", None),
    ],
)
def test_only_a_relative_address_leads_to_a_file(address, expected):
    assert file_at(address) == expected
