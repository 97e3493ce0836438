"""Lines of growing files, or whole files, of one folder."""

import asyncio
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from engine.functions.connectors.connector_settings import fields, flag, number, text, whole
from engine.functions.connectors.files.chunk_log import ChunkLog, SourceChunk, printable
from engine.functions.connectors.spi import ConnectorContext, ConnectorError, Record, Source

LINES, WHOLE = "lines", "whole"
KEEP, DELETE = "keep", "delete"
CHUNK_BYTES = 1 << 20
CHUNK_LINES = 1000
FILE_BYTES_MAX = 5 << 20
"""Bytes of a whole file at most, Pulsar's default of a message's size."""
SOURCE_SETTINGS = fields(
    ("folder",),
    folder=text("Folder", "Folder on the worker's machine"),
    pattern=text("Files", "Pattern of the files' paths in the folder, such as **/*.log", "*"),
    mode=text(
        "Records",
        "lines: each complete line, also of files that grow; whole: each file that is no longer written",
        LINES,
        choices=(LINES, WHOLE),
    ),
    afterwards=text(
        "Afterwards",
        "What becomes of a whole file whose message is stored",
        KEEP,
        choices=(KEEP, DELETE),
    ),
    quietMs=whole(
        "Quiet time",
        "Milliseconds without a change after which a file is whole",
        1000,
        0,
        86_400_000,
    ),
    followLinks=flag(
        "Follow links", "Whether symbolic links may lead to files outside of the folder", False
    ),
    pollSeconds=number("Poll", "Seconds between looks at the folder", 1.0, 0.05, 3600),
)


class StuckFileError(Exception):
    """A file that cannot be read as it is; others can."""


class FoundFile(NamedTuple):
    """A file that was read: its name in the log of chunks, path and the range with its records."""

    name: str
    start: int
    stop: int
    values: list[bytes]


class FilesSource(Source):
    """A source of files. A file is known by its path and inode, so a new file of an old name is read from its start."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Source``. Raises ConnectorError without the folder."""
        self._settings, self._context = settings, context
        self._folder = Path(settings["folder"])
        if not await asyncio.to_thread(self._folder.is_dir):
            raise ConnectorError(f"configs.folder: {self._folder} is no folder of this machine")
        pattern = Path(settings["pattern"])
        if pattern.is_absolute() or ".." in pattern.parts or not pattern.parts:
            raise ConnectorError(
                f"configs.pattern: {settings['pattern']} is no pattern of paths in the folder"
            )
        self._real = str(await asyncio.to_thread(self._folder.resolve))
        self._stuck: dict[str, str] = {}
        """Reasons that were reported, by the names of files."""
        self._chunks = ChunkLog("files", context)
        self._again = await self._chunks.load()
        self._deletes = (settings["mode"], settings["afterwards"]) == (WHOLE, DELETE)
        self._deletable: dict[str, SourceChunk] = {}
        self._latest = ""

    async def read(self) -> Sequence[Record]:
        """See ``Source``."""
        while self._again:
            chunk = self._again.pop(0)
            try:
                values = await asyncio.to_thread(self._reread, chunk)
            except StuckFileError as error:
                raise ConnectorError(f"{printable(chunk.name)}: {error}") from error
            if values is not None:
                return self._records(chunk, values)
            name = printable(chunk.name)
            self._context.trouble(f"{name}: it changed or went before its records were stored")
            chunk.unacked = 0
        while True:
            if not self._chunks.full:
                names = await asyncio.to_thread(self._names)
                # The file that was read last is asked last, so that one that always grows delays no other.
                for name in sorted(names, key=lambda name: (name <= self._latest, name)):
                    start = await self._chunks.offset(name)
                    piece = await self._next_piece(name, start)
                    if piece is not None:
                        self._latest = name
                        chunk = await self._chunks.begin(
                            piece.name, piece.start, piece.stop, len(piece.values)
                        )
                        return self._records(chunk, piece.values)
                    if self._deletes and start and name not in self._deletable:
                        # The instance ended before it could.
                        await self._remove(name)
            await asyncio.sleep(self._settings["pollSeconds"])

    async def _next_piece(self, name: str, start: int) -> FoundFile | None:
        """Return the next records of a file; None without any, or while it cannot be read, which is reported once."""
        try:
            piece = await asyncio.to_thread(self._piece, name, start)
        except StuckFileError as error:
            if self._stuck.get(name) != str(error):
                self._stuck[name] = str(error)
                self._context.trouble(f"{printable(name)}: {error}")
            return None
        self._stuck.pop(name, None)
        return piece

    async def _remove(self, name: str) -> None:
        await asyncio.to_thread(self._path(name).unlink, missing_ok=True)
        # A new file may have the same name and number.
        await self._chunks.forget(name)

    def _records(self, chunk: SourceChunk, values: list[bytes]) -> list[Record]:
        if self._deletes:
            self._deletable[chunk.name] = chunk
        return self._chunks.records(chunk, values)

    def _names(self) -> list[str]:
        """Return the names of this instance's files, ``path@inode``. Raises ConnectorError without the folder."""
        names = []
        try:
            os.scandir(self._folder).close()
        except OSError as error:  # which a glob takes for an empty folder
            raise ConnectorError(f"configs.folder: {error}") from error
        for path in self._folder.glob(self._settings["pattern"]):
            relative = path.relative_to(self._folder).as_posix()
            if (
                zlib.crc32(os.fsencode(relative)) % self._context.instances
                != self._context.instance
            ):
                continue
            try:
                if path.is_file():
                    names.append(f"{relative}@{path.stat().st_ino}")
            except OSError:  # removed since it was listed, or in a folder that may not be read
                continue
        return names

    def _path(self, name: str) -> Path:
        return self._folder / name.rpartition("@")[0]

    def _piece(self, name: str, start: int) -> FoundFile | None:
        """Return the next records of a file, None without any."""
        path = self._path(name)
        try:
            state = path.stat()
            if state.st_size == start:
                return None
            if state.st_size < start:  # it was truncated, as some rotate logs
                start = 0
            with self._open(path) as file:
                if self._settings["mode"] == WHOLE:
                    return self._whole(name, file, state.st_size, state.st_mtime)
                file.seek(start)
                data = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StuckFileError(error.strerror) from error
        values, stop = _lines(data)
        if not values:
            if len(data) == CHUNK_BYTES:
                raise StuckFileError(f"the line at byte {start} exceeds {CHUNK_BYTES} bytes")
            return None
        return FoundFile(name, start, start + stop, values)

    def _open(self, path: Path) -> BinaryIO:
        """Open a file. Raises StuckFileError for a link that leads out of the folder, and OSError."""
        # A pipe in the place of a file would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        file = os.fdopen(descriptor, "rb")
        # The name of what is open, which no link can change any more.
        real = os.readlink(f"/proc/self/fd/{descriptor}")
        if not self._settings["followLinks"] and not real.startswith(self._real.rstrip("/") + "/"):
            file.close()
            raise StuckFileError("it is a link that leads out of the folder (followLinks)")
        return file

    def _whole(self, name: str, file: BinaryIO, size: int, changed_s: float) -> FoundFile | None:
        if self._context.clock.wall_ms() - changed_s * 1000 < self._settings["quietMs"]:
            return None
        if size > FILE_BYTES_MAX:
            raise StuckFileError(f"{size} bytes exceed a message's {FILE_BYTES_MAX}")
        data = file.read(FILE_BYTES_MAX + 1)
        return FoundFile(name, 0, len(data), [data])

    def _reread(self, chunk: SourceChunk) -> list[bytes] | None:
        """Return the records of a chunk that was noted before, None when they are gone."""
        path = self._path(chunk.name)
        try:
            with self._open(path) as file:
                if os.fstat(file.fileno()).st_ino != int(chunk.name.rpartition("@")[2]):
                    return None
                file.seek(chunk.start)
                data = file.read(chunk.stop - chunk.start)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StuckFileError(error.strerror) from error
        values = [data] if self._settings["mode"] == WHOLE else _lines(data)[0]
        return values if len(values) == chunk.records else None

    async def commit(self) -> None:
        """See ``Source``."""
        await self._chunks.commit()
        for name, chunk in list(self._deletable.items()):
            if not chunk.unacked:
                await self._remove(name)
                del self._deletable[name]


def _lines(data: bytes) -> tuple[list[bytes], int]:
    """Return complete lines without their ends, at most CHUNK_LINES, and the bytes that they take."""
    lines = data.split(b"\n")[:-1][:CHUNK_LINES]
    return [line.removesuffix(b"\r") for line in lines], sum(len(line) + 1 for line in lines)
