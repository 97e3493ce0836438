"""The log of one instance in two files of bounded size: the current one, and the one before."""

import os
from pathlib import Path

BYTES_MAX = 4 * 1024 * 1024
TAIL_BYTES_MAX = 256 * 1024


class BoundedLog:
    """A log in ``folder``: ``log.txt``, and ``log.1.txt`` with what was before."""

    def __init__(self, folder: Path, bytes_max: int = BYTES_MAX) -> None:
        self._path = folder / "log.txt"
        self._before = folder / "log.1.txt"
        self._bytes_max = bytes_max
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        """Append; begin another file where this one is full."""
        if self._size + len(data) > self._bytes_max and self._size:
            self._file.close()
            os.replace(self._path, self._before)
            self._file, self._size = self._path.open("ab", buffering=0), 0
        self._file.write(data)
        self._size += len(data)

    def tail(self, lines: int) -> str:
        """Return the last lines, at most ``TAIL_BYTES_MAX`` bytes."""
        texts = []
        for path in (self._before, self._path):
            if path.exists():
                with path.open("rb") as file:
                    file.seek(max(0, path.stat().st_size - TAIL_BYTES_MAX))
                    texts.append(file.read())
        last = b"".join(texts)[-TAIL_BYTES_MAX:].decode(errors="replace").splitlines()
        return "\n".join(last[-lines:])

    def close(self) -> None:
        self._file.close()
