"""The part of the files seam that only bookies use: a disk that also opens an ordered key-value index."""

from collections.abc import Sequence
from typing import Any, Protocol

from engine.base.disk.files import Disk, SystemDisk


class Index(Protocol):
    """An ordered map of byte keys to byte values. Writes are durable after ``flush``; before that, in any order."""

    def get(self, key: bytes) -> bytes | None: ...

    def floor(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the greatest key <= ``key`` with its value; None when there is none."""
        ...

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        """Return the rows with keys in [start, stop), in order."""
        ...

    def scan_from(self, key: bytes, stop: bytes, rows_max: int) -> list[tuple[bytes, bytes]]:
        """Return the row of the greatest key <= ``key``, if any, and the following rows below ``stop``; at most
        ``rows_max``."""
        ...

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        """Apply ``deletes``, then ``puts``, as one step for readers."""
        ...

    def flush(self) -> None: ...

    def compact(self) -> None:
        """Rewrite the files without what was deleted or overwritten."""
        ...

    def close(self) -> None: ...


class IndexDisk(Disk, Protocol):
    """A directory tree with indexes in it."""

    def open_index(self, path: str) -> Index:
        """Open an ordered key-value index; create it when there is none."""
        ...


class RocksIndex:
    """RocksDB without a write-ahead log: what was not flushed is lost in a crash. Safe to use from several threads."""

    def __init__(self, path: str) -> None:
        import rocksdict  # imported late: tests and tools that open no index do not need it

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(8 << 20)
        options.set_max_write_buffer_number(3)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(2)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(16 << 20))
        options.set_block_based_table_factory(table)
        self._rocks: Any = rocksdict
        self._db: Any = rocksdict.Rdict(path, options)
        self._unlogged = self._rocks.WriteOptions()
        self._unlogged.disable_wal = True

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._db.get(key)
        return value

    def floor(self, key: bytes) -> tuple[bytes, bytes] | None:
        cursor = self._db.iter()
        cursor.seek_for_prev(key)
        return (cursor.key(), cursor.value()) if cursor.valid() else None

    def scan(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        cursor = self._db.iter()
        cursor.seek(start)
        rows = []
        while cursor.valid() and (key := cursor.key()) < stop:
            rows.append((key, cursor.value()))
            cursor.next()
        return rows

    def scan_from(self, key: bytes, stop: bytes, rows_max: int) -> list[tuple[bytes, bytes]]:
        cursor = self._db.iter()
        cursor.seek_for_prev(key)
        if not cursor.valid():
            cursor.seek(key)
        rows: list[tuple[bytes, bytes]] = []
        while cursor.valid() and len(rows) < rows_max and (row_key := cursor.key()) < stop:
            rows.append((row_key, cursor.value()))
            cursor.next()
        return rows

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key in deletes:
            batch.delete(key)
        for key, value in puts:
            batch.put(key, value)
        self._db.write(batch, self._unlogged)

    def flush(self) -> None:
        self._db.flush(True)

    def compact(self) -> None:
        self._db.compact_range(None, None)

    def close(self) -> None:
        self._db.close()


class SystemIndexDisk(SystemDisk):
    """The disk of the operating system, with RocksDB for indexes."""

    def open_index(self, path: str) -> Index:
        return RocksIndex(path)
