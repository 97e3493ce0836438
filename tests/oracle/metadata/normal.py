"""Transcripts in a form that two servers share: session ids are slots, times are checked, zxids are ranks."""

import hashlib
from bisect import bisect_right
from typing import Any

from engine.metadata.server.protocol import (
    AclAnswer,
    Children,
    Created,
    Data,
    Event,
    Identities,
    MultiAnswer,
    Paths,
    Request,
    Stat,
)
from tests.oracle.metadata.play import Connected, Ended, Item, Transcript
from tests.support.zookeeper.client_codec import Reply

CLOCK_MS = 3.0
"""Tolerance of a node's times: servers read their clock once for a while."""


class Normalizer:
    """Rewrites one transcript. ``exact``: no other client was there, so that zxids are compared as differences."""

    def __init__(self, transcript: Transcript, *, exact: bool) -> None:
        self._transcript = transcript
        self._exact = exact

    def lines(self) -> list[list[str]]:
        """Return a line for each item of each connection."""
        return [self._connection(items) for items in self._transcript.connections]

    def _connection(self, items: list[Item]) -> list[str]:
        lines: list[str] = []
        run: list[str] = []
        run_zxid = -1
        for item in items:
            # Events of one transaction of several changes: the end of a session deletes its nodes in no defined order.
            zxid = self._event_zxid(item)
            if run and zxid != run_zxid:
                lines += sorted(run)
                run = []
            if zxid > 0:
                run.append(self._line(item))
                run_zxid = zxid
            else:
                lines.append(self._line(item))
        return lines + sorted(run)

    def _event_zxid(self, item: Item) -> int:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Event):
            zxid = item[1].zxid
            transcript = self._transcript
            expired = zxid not in transcript.windows
            return zxid if expired or zxid in transcript.closes else -1
        return -1

    def _line(self, item: Item) -> str:
        match item:
            case Connected() | Ended():
                return str(item)
            case (_, Event() as event):
                return f"event {event.type.name} {event.path!r} {self._own(event.zxid)}"
            case (request, Reply() as reply):
                return self._reply(request, reply)
        raise AssertionError(item)

    def _reply(self, request: Request | None, reply: Reply) -> str:
        answer = self._answer(reply.answer)
        return f"{shown(request)} -> {reply.code!r} {self._zxid(reply.zxid)} {answer}"

    def _answer(self, answer: Any) -> Any:
        match answer:
            case Stat():
                return self._stat(answer)
            case Created(path, stat) | Data(path, stat):
                return (shown(path), self._stat(stat))
            case Children(names, stat):
                return (sorted(names), self._stat(stat))
            case AclAnswer(acl, stat):
                return (sorted(acl), self._stat(stat))
            case Identities(identities):
                return sorted(identities)
            case Paths(paths):
                return sorted(paths)
            case MultiAnswer(results):
                return [
                    (part[0].name, self._answer(part[1])) if isinstance(part, tuple) else part
                    for part in results
                ]
        return answer

    def _stat(self, stat: Stat | None) -> Any:
        if stat is None:
            return None
        owner: Any = stat.ephemeral_owner
        if owner != 0:
            owner = self._transcript.sessions.get(owner, f"unknown {owner:#x}")
        return stat._replace(
            czxid=self._own(stat.czxid),
            mzxid=self._own(stat.mzxid),
            pzxid=self._own(stat.pzxid),
            ctime=self._time(stat.czxid, stat.ctime),
            mtime=self._time(stat.mzxid, stat.mtime),
            ephemeral_owner=owner,
        )

    def _zxid(self, zxid: int) -> Any:
        """Return the number of own writes that are not later."""
        if zxid <= 0:
            return zxid
        writes = self._transcript.writes
        if self._exact and writes:
            return zxid - writes[0]
        return f"#{bisect_right(writes, zxid)}"

    def _own(self, zxid: int) -> Any:
        """Return the number of an own write."""
        known = zxid <= 0 or self._exact or zxid in self._transcript.windows
        return self._zxid(zxid) if known else f"{self._zxid(zxid)} and more"

    def _time(self, zxid: int, time_ms: int) -> Any:
        window = self._transcript.windows.get(zxid)
        if window is None:
            return "unknown"
        if window.from_ms - CLOCK_MS <= time_ms <= window.to_ms + CLOCK_MS:
            return "right"
        return f"{time_ms} is not in {window}"


def shown(value: Any) -> str:
    """Return a value as text, of bounded length."""
    text = repr(value)
    return text if len(text) < 2000 else f"{text[:100]}...{len(text)}...{hash_of(text)}"


def hash_of(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()[:12]
