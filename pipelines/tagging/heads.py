"""Describe a change to a file so that it can be undone exactly: by the lines up to the last one that differs."""

from __future__ import annotations


def heads(before: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Return the beginnings of two versions, in whole lines; the rest is the same in both."""
    same = 0
    shortest = min(len(before), len(after))
    while same < shortest and before[-1 - same] == after[-1 - same]:
        same += 1
    head_before, head_after = before[: len(before) - same], after[: len(after) - same]
    if head_after.endswith(b"\n") and (not head_before or head_before.endswith(b"\n")):
        return head_before, head_after
    # A line that differs belongs to the head as a whole, so that an edit on it is noticed.
    tail = before[len(before) - same :]
    rest = tail[: tail.find(b"\n") + 1] or tail
    return head_before + rest, head_after + rest


def restored(data: bytes, head_before: bytes, head_after: bytes) -> bytes | None:
    """Return a file as it was before a change, with later changes below it kept; None if that cannot be determined.

    A file that is already as it was is returned unchanged, because undoing may be repeated after a crash.
    """
    # If both beginnings fit, one is a prefix of the other, and the longer one is meant.
    for head in sorted((head_after, head_before), key=len, reverse=True):
        if begins(data, head):
            return data if head == head_before else head_before + data[len(head_after) :]
    return None


def begins(data: bytes, head: bytes) -> bool:
    """Say whether a file begins with these whole lines; if the last line goes on, it was edited."""
    follows = data[len(head) : len(head) + 1]
    return data.startswith(head) and (head.endswith(b"\n") or follows in (b"", b"\n", b"\r"))
