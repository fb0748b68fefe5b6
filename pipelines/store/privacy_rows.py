"""Write what each note itself says about its privacy, in one transaction with its other rows."""

from __future__ import annotations

import apsw

from pipelines.model import OwnPrivacy


def keep(con: apsw.Connection, path: str, own: OwnPrivacy) -> None:
    """Store what a note says about its privacy (inside the transaction that indexes it)."""
    tags = "".join(f"\n{tag}" for tag in own.tags) + ("\n" if own.tags else "")
    con.execute(
        "INSERT OR REPLACE INTO vault_privacy VALUES (?, ?, ?, ?)", (path, own.private, own.place, tags)
    )


def forget(con: apsw.Connection, path: str) -> None:
    """Delete what a note said (inside the transaction that removes it)."""
    con.execute("DELETE FROM vault_privacy WHERE path = ?", (path,))


def forget_all(con: apsw.Connection) -> None:
    """Delete what all notes said, because another version said what is private (inside the caller's transaction)."""
    con.execute("DELETE FROM vault_privacy")
