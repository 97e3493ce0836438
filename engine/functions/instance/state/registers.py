"""Names and values of registers, and the local store that holds them."""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from rocksdict import Options, Rdict

VALUE, COUNT, BASE = b"v", b"c", b"b"
"""Kinds: a value; what one instance has counted; what is added to the sum of those."""
_TOTAL = b"t"
_HEAD = Struct(">QQIQ")
KEY_BYTES_MAX = 4096


class Born(NamedTuple):
    """The place of a change in the order of all: ledger, entry, index in its batch."""

    ledger: int
    entry: int
    place: int


class Register(NamedTuple):
    """The value of a register, None when deleted. ``version``: the number of its changes."""

    value: bytes | None
    born: Born
    version: int


def register_name(kind: bytes, key: str, writer: str = "") -> bytes:
    """Return the name of a register. Raises ValueError for a key that is no text or too long."""
    data = key.encode()
    if not data or len(data) > KEY_BYTES_MAX or b"\x00" in data:
        raise ValueError(f"state key: 1 to {KEY_BYTES_MAX} bytes without NUL")
    return kind + data + b"\x00" + writer.encode()


def key_of(name: bytes) -> bytes:
    return name[1 : name.index(b"\x00")]


class LocalStore:
    """The registers as far as the topic was followed. Used under its owner's lock."""

    def __init__(self, folder: Path) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._db = Rdict(str(folder), options)
        self.live = 0
        """Registers that have a value."""

    def get(self, name: bytes) -> Register | None:
        stored: bytes | None = self._db.get(name)
        if stored is None:
            return None
        ledger, entry, place, version = _HEAD.unpack_from(stored)
        marked = stored[_HEAD.size :]
        return Register(
            marked[1:] if marked[:1] == b"+" else None, Born(ledger, entry, place), version
        )

    def total(self, key: str) -> int | None:
        """Return the sum of a counter's registers; None without any."""
        stored: bytes | None = self._db.get(_TOTAL + key.encode())
        return None if stored is None else int(stored)

    def apply(self, name: bytes, value: bytes | None, born: Born, version: int | None) -> None:
        """Note a change, unless a later one was noted (F8). ``version`` None: one more than before."""
        before = self.get(name)
        if before is not None and before.born >= born:
            return
        if name[:1] in (COUNT, BASE):
            self._add(name, value, before)
        had = before is not None and before.value is not None
        self.live += (value is not None) - had
        if version is None:
            version = 1 if before is None else before.version + 1
        marked = b"-" if value is None else b"+" + value
        self._db[name] = _HEAD.pack(*born, version) + marked

    def _add(self, name: bytes, value: bytes | None, before: Register | None) -> None:
        old = 0 if before is None or before.value is None else int(before.value)
        new = 0 if value is None else int(value)
        total = _TOTAL + key_of(name)
        self._db[total] = b"%d" % (int(self._db.get(total) or b"0") + new - old)

    def items(self) -> Iterator[tuple[bytes, Register]]:
        """Yield all registers that have a value, as they were at the first."""
        name: Any
        for name in self._db.keys():  # noqa: SIM118 (no mapping)
            if name[:1] != _TOTAL:
                register = self.get(name)
                if register is not None and register.value is not None:
                    yield name, register

    def close(self) -> None:
        self._db.close()
