"""What a change to a file was, so that it can be taken back exactly: the lines up to the last one that differs."""

from __future__ import annotations


def heads(before: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Return the beginnings of two versions, in whole lines: what follows them is the same in both."""
    same = 0
    shortest = min(len(before), len(after))
    while same < shortest and before[-1 - same] == after[-1 - same]:
        same += 1
    head_before, head_after = before[: len(before) - same], after[: len(after) - same]
    if head_after.endswith(b"\n") and (not head_before or head_before.endswith(b"\n")):
        return head_before, head_after
    # A line that differs belongs to the head as a whole: an edit on it must not go unnoticed.
    tail = before[len(before) - same :]
    rest = tail[: tail.find(b"\n") + 1] or tail
    return head_before + rest, head_after + rest


def restored(data: bytes, head_before: bytes, head_after: bytes) -> bytes | None:
    """Return a file as it was before a change, with what was written below since; None where it cannot be told.

    A file that is as it was already is returned as it is: taking back may be done again after a crash.
    """
    # Of two beginnings that both fit, one begins with the other, and the longer one is meant.
    for head in sorted((head_after, head_before), key=len, reverse=True):
        if _begins(data, head):
            return data if head == head_before else head_before + data[len(head_after) :]
    return None


def _begins(data: bytes, head: bytes) -> bool:
    """Say whether whole lines of a file are a beginning: a line that goes on behind it was edited."""
    follows = data[len(head) : len(head) + 1]
    return data.startswith(head) and (head.endswith(b"\n") or follows in (b"", b"\n", b"\r"))
