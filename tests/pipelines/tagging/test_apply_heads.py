"""A change is undone exactly, and only if the lines that it changed are as it left them."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.tagging.apply import heads, restored

LINES = st.lists(
    st.sampled_from([b"---", b"tags: [a]", b"tags: [b]", b"  - a", b"#b", b"", b"\xff"]), max_size=6
)
TEXTS = st.tuples(LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans()).map(
    lambda drawn: drawn[1].join(drawn[0]) + (drawn[1] if drawn[2] else b"")
)


@given(TEXTS, TEXTS)
def test_a_change_is_taken_back_exactly(before, after):
    head_before, head_after = heads(before, after)
    # If one beginning continues as the other does, a file may be either.
    if before != after and not after.startswith(head_before):
        assert restored(after, head_before, head_after) == before
        if head_before:
            assert restored(before, head_before, head_after) in (before, None)


@given(TEXTS, TEXTS, TEXTS)
def test_taking_back_twice_is_taking_back_once_and_what_follows_stays(before, after, more):
    head_before, head_after = heads(before, after)
    once = restored(after + b"\n" + more, head_before, head_after)
    # If the rest begins as the change does, a file may be either.
    if once is not None and not once.startswith(head_after):
        assert restored(once, head_before, head_after) in (once, None)
    assert once is None or once.endswith(more)


def test_a_line_that_goes_on_where_the_change_ended_was_edited():
    change = heads(b"tags: [a]\n---\n", b"tags: [a, soil]\n---\n")
    assert restored(b"tags: [a, soils]\n---\n", *change) is None
    assert restored(b"#new", *heads(b"#old", b"#new")) == b"#old"
    assert restored(b"#newer", *heads(b"#old", b"#new")) is None
    assert restored(b"#new\nmore", *heads(b"#old", b"#new")) == b"#old\nmore"
