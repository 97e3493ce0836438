"""Effectively-once state: which inputs the state's topic has, with their changes and results. Pure.

A slice of an input partition is one message of the topic: what its inputs changed and returned. An instance claims a
partition before it processes, by a message as well, and knows all that counts when it reads that back. Whether a slice
counts is decided by the topic's order alone, so that all who read it agree: its writer must have the last claim of the
partition, and every slice before it of the same writer must count. An input that counts is not processed again; its
result is sent from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct
from struct import error as StructError
from types import MappingProxyType
from typing import NamedTuple

from engine.functions.instance.state.registers import Born

NOTHING = -1
"""The sequence id before the first input of a partition."""
WRITERS_KEPT = 1000
"""Writers whose last slice is remembered, the latest ones: each start of an instance is one."""
REFUSED = -1
"""Stands for a writer's last slice: nothing of it counts any more."""
_COUNT = Struct(">I")
_SEQUENCE = Struct(">q")
_SLICE = Struct(">?Qqq")
_BORN = Struct(">qqq")
_DELETED = 0xFFFFFFFF


class SliceVerdict(Enum):
    """Judgement on a slice. REPEATED: it counted before."""

    COUNTS = "counts"
    REPEATED = "repeated"
    REFUSED = "refused"


class SliceFormatError(ValueError):
    """Bytes that are no slice."""


class LoggedSlice(NamedTuple):
    """Changes and results of consecutive inputs of a partition. Sequence ids as of the results.

    ``writer``: the number of its instance, a hyphen, and a name of that start. ``number``: of the slice among those of
    its writer, from 0. ``last``: the last input. ``stored``: up to there the partition's results are stored in the
    output. ``claim``: it has no inputs, and its writer alone may log the partition's from now on; of an empty partition
    name: its writer is the only start of its instance that counts.
    """

    writer: str
    number: int
    partition: str
    last: int = NOTHING
    stored: int = NOTHING
    changes: Mapping[bytes, bytes | None] = MappingProxyType({})
    results: Mapping[int, bytes] = MappingProxyType({})
    claim: bool = False

    def to_bytes(self) -> bytes:
        parts = [_SLICE.pack(self.claim, self.number, self.last, self.stored)]
        _add(parts, self.writer.encode())
        _add(parts, self.partition.encode())
        parts.append(_COUNT.pack(len(self.changes)))
        for name, value in self.changes.items():
            _add(parts, name)
            _add(parts, value)
        _add_results(parts, self.results)
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> "LoggedSlice":
        """Parse what ``to_bytes`` returned. Raises SliceFormatError."""
        cut = _Cut(data)
        claim, number, last, stored = cut.fields(_SLICE)
        writer, partition = cut.text(), cut.text()
        changes = {cut.filled(): cut.block() for _ in range(cut.count())}
        return cls(writer, number, partition, last, stored, changes, cut.results(), bool(claim))


@dataclass(slots=True)
class LoggedPartition:
    """State of an input partition. ``owner``: the writer that claimed it last. ``results``: those that may not
    be stored in the output yet."""

    last: int = NOTHING
    stored: int = NOTHING
    owner: str = ""
    results: dict[int, bytes] = field(default_factory=dict)


class LoggedInputs:
    """The inputs that count, as far as the topic was read. ``until``: the place up to which a copy has everything."""

    def __init__(self) -> None:
        self.until = Born(-1, -1, -1)
        self._partitions: dict[str, LoggedPartition] = {}
        self._writers: dict[str, int] = {}

    def partition(self, name: str) -> LoggedPartition:
        """Return what is known of a partition, which may be nothing."""
        return self._partitions.get(name) or LoggedPartition()

    def judge(self, part: LoggedSlice) -> SliceVerdict:
        """Note the next slice of the topic, and return whether it counts (F9)."""
        latest = self._writers.get(part.writer)
        if latest == REFUSED:
            return SliceVerdict.REFUSED
        if latest is not None and part.number <= latest:
            return SliceVerdict.REPEATED
        if part.claim:
            self._claim(part)
            return SliceVerdict.COUNTS
        known = self._partitions.setdefault(part.partition, LoggedPartition())
        if part.writer != known.owner:
            # What this writer processed later was computed from this.
            self._note(part.writer, REFUSED)
            return SliceVerdict.REFUSED
        self._note(part.writer, part.number)
        known.last = part.last
        known.results.update(part.results)
        if part.stored > known.stored:
            known.stored = part.stored
            for sequence in [number for number in known.results if number <= part.stored]:
                del known.results[sequence]
        return SliceVerdict.COUNTS

    def _claim(self, part: LoggedSlice) -> None:
        if part.partition:
            self._partitions.setdefault(part.partition, LoggedPartition()).owner = part.writer
        else:
            instance = part.writer.partition("-")[0] + "-"
            for writer in self._writers:
                if writer.startswith(instance):
                    self._writers[writer] = REFUSED
        self._note(part.writer, part.number)

    def _note(self, writer: str, number: int) -> None:
        self._writers.pop(writer, None)
        self._writers[writer] = number
        if len(self._writers) > WRITERS_KEPT:
            del self._writers[next(iter(self._writers))]

    def to_bytes(self, until: Born) -> bytes:
        """Return a copy of all that is known, from reading the topic up to ``until``."""
        parts = [_BORN.pack(*until), _COUNT.pack(len(self._partitions))]
        for name, known in self._partitions.items():
            _add(parts, name.encode())
            parts.append(_SEQUENCE.pack(known.last))
            parts.append(_SEQUENCE.pack(known.stored))
            _add(parts, known.owner.encode())
            _add_results(parts, known.results)
        parts.append(_COUNT.pack(len(self._writers)))
        for writer, number in self._writers.items():
            _add(parts, writer.encode())
            parts.append(_SEQUENCE.pack(number))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> "LoggedInputs":
        """Parse a copy. Raises SliceFormatError."""
        cut, made = _Cut(data), cls()
        made.until = Born(*cut.fields(_BORN))
        for _ in range(cut.count()):
            name = cut.text()
            (last,), (stored,) = cut.fields(_SEQUENCE), cut.fields(_SEQUENCE)
            made._partitions[name] = LoggedPartition(last, stored, cut.text(), cut.results())
        for _ in range(cut.count()):
            writer = cut.text()
            made._writers[writer] = cut.fields(_SEQUENCE)[0]
        return made


def _add(parts: list[bytes], block: bytes | None) -> None:
    if block is None:
        parts.append(_COUNT.pack(_DELETED))
        return
    parts.append(_COUNT.pack(len(block)))
    parts.append(block)


def _add_results(parts: list[bytes], results: Mapping[int, bytes]) -> None:
    parts.append(_COUNT.pack(len(results)))
    for sequence, data in results.items():
        parts.append(_SEQUENCE.pack(sequence))
        _add(parts, data)


class _Cut:
    """Takes fields off the front of bytes. Each method raises SliceFormatError where they end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self, form: Struct) -> Sequence[int]:
        try:
            taken: Sequence[int] = form.unpack_from(self._data, self._at)
        except StructError as error:
            raise SliceFormatError(str(error)) from error
        self._at += form.size
        return taken

    def count(self) -> int:
        return self.fields(_COUNT)[0]

    def block(self) -> bytes | None:
        size = self.count()
        if size == _DELETED:
            return None
        end = self._at + size
        if end > len(self._data):
            raise SliceFormatError(f"{size} bytes are not there")
        block, self._at = self._data[self._at : end], end
        return block

    def filled(self) -> bytes:
        block = self.block()
        if block is None:
            raise SliceFormatError("a name is missing")
        return block

    def text(self) -> str:
        try:
            return self.filled().decode()
        except UnicodeDecodeError as error:
            raise SliceFormatError(str(error)) from error

    def results(self) -> dict[int, bytes]:
        return {self.fields(_SEQUENCE)[0]: self.filled() for _ in range(self.count())}
