"""Requests of ZooKeeper's protocol that kazoo does not implement."""

from collections.abc import Sequence
from typing import Any

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    int_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import ZnodeStat


class NoWatcherError(zk.ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """The watch to be removed does not exist, because it fired meanwhile."""

    code = -121


# kazoo drops the connection for codes that it does not know.
zk.EXCEPTIONS[NoWatcherError.code] = NoWatcherError


class EndWatches:
    """Request removeWatches, which removes all watches of this session at ``path`` (C4)."""

    type = 18
    _ANY_KIND = 3

    def __init__(self, client: KazooClient, path: str) -> None:
        self._client = client
        self._path = path

    def serialize(self) -> bytes:
        return bytes(write_string(self._path) + int_struct.pack(self._ANY_KIND))

    def deserialize(self, buffer: bytes, offset: int) -> None:
        """Remove kazoo's watchers of the path.

        This runs on kazoo's thread, which handles answers in order, so that watches of later reads are kept.
        """
        self._client._data_watchers.pop(self._path, None)
        self._client._child_watchers.pop(self._path, None)


class MultiRead:
    """Request multiRead of ZooKeeper 3.6 and newer.

    The answer has the values of ``paths`` with their stats, then the names of the children of ``parent`` if one is
    given; None stands for a missing node. A node without data is read as empty. Any other error fails the request.
    """

    type = 22

    def __init__(self, paths: Sequence[str], parent: str | None) -> None:
        self._reads: list[Any] = [GetData(path, None) for path in paths]
        if parent is not None:
            self._reads.append(GetChildren(parent, None))

    def serialize(self) -> bytes:
        out = bytearray()
        for read in self._reads:
            out += multiheader_struct.pack(read.type, False, -1) + read.serialize()
        return bytes(out + multiheader_struct.pack(-1, True, -1))

    def deserialize(self, buffer: bytes, offset: int) -> list[Any]:
        answers: list[Any] = []
        for _ in self._reads:
            kind, _, _ = multiheader_struct.unpack_from(buffer, offset)
            answer, offset = _answer(kind, buffer, offset + multiheader_struct.size)
            answers.append(answer)
        return answers


def _answer(kind: int, buffer: bytes, offset: int) -> tuple[Any, int]:
    """Decode one of several answers; return it and the offset of the next."""
    if kind == GetData.type:
        value, offset = read_buffer(buffer, offset)
        stat = ZnodeStat._make(stat_struct.unpack_from(buffer, offset))
        return (value or b"", stat), offset + stat_struct.size
    (number,) = int_struct.unpack_from(buffer, offset)
    offset += int_struct.size
    if kind == GetChildren.type:
        names = []
        for _ in range(number):
            name, offset = read_string(buffer, offset)
            names.append(name)
        return names, offset
    if number != zk.NoNodeError.code:
        raise zk.EXCEPTIONS.get(number, zk.ZookeeperError)()
    return None, offset
