"""Files outside a vault that nothing may open, and the kernel's word on whether something did."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

SECRET = "canary-quetzalcoatl-outside"  # noqa: S105 - a word to search for
"""The word in every file outside; no index, answer or log may contain it."""

_EVENTS = {
    0x1: "read",
    0x2: "written",
    0x4: "attributes changed",
    0x20: "opened",
    0x40: "moved away",
    0x80: "moved in",
    0x100: "created",
    0x200: "deleted",
}
_HEAD = struct.Struct("iIII")


class Canaries:
    """A folder outside the vault: what a note-taker keeps there, watched by inotify from `watch` on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "notes").mkdir(parents=True)
        for name, text in {
            ".bashrc": f"# {SECRET}\nexport EDITOR=vi\n",
            "notes/private.md": f"# Private\n\n{SECRET} soil\n",
            "taxonomy.md": f"# Tags\n\n## Group\n\n- {SECRET}: a tag\n",
            "queries.yaml": f"- query: {SECRET}\n  relevant: [Garden.md]\n",
            "domains.yaml": f"{SECRET}:\n  legacy: true\n",
            "app.json": '{"userIgnoreFilters": ["Garden"]}',
            "ignore": "*\n",
            "id": "0123456789ab\n",
        }.items():
            (folder / name).write_text(text)
        self._before = self._content()
        self._fd = -1
        self._names: dict[int, str] = {}

    def _content(self) -> dict[str, bytes]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in files}

    def watch(self) -> None:
        """Begin to listen."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0, os.strerror(ctypes.get_errno())
        for folder in (self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())):
            number = libc.inotify_add_watch(self._fd, os.fsencode(folder), sum(_EVENTS))
            self._names[number] = str(folder.relative_to(self.folder))

    def touched(self) -> list[str]:
        """Return what was done to the folder since `watch`, each once, and stop listening."""
        data = b""
        while True:
            try:
                data += os.read(self._fd, 1 << 20)
            except BlockingIOError:
                break
        os.close(self._fd)
        found, start = set(), 0
        while start < len(data):
            number, mask, _, length = _HEAD.unpack_from(data, start)
            start += _HEAD.size
            name = data[start : start + length].rstrip(b"\0").decode()
            start += length
            found |= {f"{self._names[number]}/{name} {said}" for bit, said in _EVENTS.items() if mask & bit}
        return sorted(found)

    def unchanged(self) -> bool:
        """Say whether every file is, byte for byte, what it was. It reads them: ask for `touched` first."""
        return self._content() == self._before
