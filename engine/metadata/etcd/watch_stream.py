"""One watch of etcd over a range of keys, resumed by revision after a lost stream and a lost member.

A stream that is silent may be idle or dead, and the JSON gateway has no request for its progress. So it is replaced in
time: the next stream starts at the revision behind the last event, and the previous one is read until the next is
open. What an open stream proves is the time at which it was requested.
"""

import asyncio
import logging
from collections.abc import Callable

from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.metadata.etcd.gateway import (
    PERMISSION_DENIED,
    AccessError,
    EtcdGateway,
    EtcdRefusedError,
)
from engine.metadata.etcd.messages import (
    JsonObject,
    KeyChange,
    MalformedError,
    changes_of,
    encoded,
    number,
    parsed,
    part,
    revision_of,
)
from engine.net.http_client import HttpError, StreamedAnswer

log = logging.getLogger(__name__)

LINE_BYTES_MAX = 8 << 20
"""Maximum bytes of a message. etcd splits larger ones than about 2 MiB of keys and values (``fragment``)."""
RETRY_S_MIN, RETRY_S_MAX = 0.05, 0.5


class _Gap(Exception):
    """Events were missed: the history is compacted, or a message is unreadable."""


class _Lost(Exception):
    """The stream ended."""


class WatchStream:
    """Watch over the keys from ``first`` to before ``end``.

    ``opened(sent)`` is called after each opening of a stream with the loop time of its request: all events before that
    are reported, or will be at once. ``changed`` is called for each event at least once, in the order of their
    revisions. ``missed`` is called when events were missed; the next ``opened`` is of a stream of later events.
    ``refused`` is called with the reason when etcd does not allow the watch, which is tried again.
    """

    def __init__(
        self,
        gateway: EtcdGateway,
        first: str,
        end: str,
        *,
        replace_s: float,
        open_timeout_s: float,
        opened: Callable[[float], None],
        changed: Callable[[KeyChange], None],
        missed: Callable[[str], None],
        refused: Callable[[MagnetarError], None],
    ) -> None:
        self._gateway = gateway
        self._range = {"key": encoded(first), "range_end": encoded(end), "fragment": True}
        self._replace_s = replace_s
        self._open_timeout_s = open_timeout_s
        self._opened = opened
        self._changed = changed
        self._missed = missed
        self._refused = refused
        self._next = 0
        """Revision of the next event, 0 when it is not known."""

    async def run(self) -> None:
        """Follow the range until cancelled."""
        loop = asyncio.get_running_loop()
        tasks = TaskScope("etcd-watch")
        reading: asyncio.Task[None] | None = None
        backoff = Backoff(RETRY_S_MIN, RETRY_S_MAX, jitter=0.0)
        try:
            while True:
                sent, member = loop.time(), self._gateway.member
                try:
                    lines = await self._open()
                except (MagnetarError, _Lost, HttpError, MalformedError, TimeoutError) as error:
                    self._note_failure(member, error)
                    await asyncio.sleep(backoff.next_s(0.0))
                    continue
                except _Gap as gap:
                    self._forget(str(gap))
                    await asyncio.sleep(backoff.next_s(0.0))
                    continue
                if reading is not None:
                    reading.cancel()
                reading = tasks.spawn("read", self._read(lines, member))
                self._opened(sent)
                await asyncio.wait([reading], timeout=self._replace_s)
                if loop.time() - sent >= RETRY_S_MAX:
                    backoff.reset()
                elif reading.done():  # streams that end at once are not opened without a pause
                    await asyncio.sleep(backoff.next_s(0.0))
        finally:
            await tasks.close()

    def _note_failure(self, member: str, error: Exception) -> None:
        log.debug("watch not opened member=%s error=%r", member, error)
        if isinstance(error, EtcdRefusedError | AccessError):
            self._refused(error)
        self._gateway.leave(member)

    def _forget(self, reason: str) -> None:
        self._next = 0
        self._missed(reason)

    async def _open(self) -> "_Lines":
        """Open a stream and return it once etcd has created its watch."""
        request: JsonObject = dict(self._range)
        if self._next:
            request["start_revision"] = str(self._next)
        async with asyncio.timeout(self._open_timeout_s):
            lines = _Lines(await self._gateway.watch(request))
            try:
                result = part(parsed(await lines.next()), "result")
                self._check(result)
                if not result.get("created"):
                    raise _Lost("no watch was created")
                self._next = self._next or revision_of(result) + 1
            except BaseException:
                lines.close()
                raise
        return lines

    def _check(self, result: JsonObject) -> None:
        """Raise _Gap or _Lost for the end of a watch."""
        if not result.get("canceled"):
            return
        if number(result, "compact_revision"):
            raise _Gap("the revisions that were missed are compacted")
        reason = str(result.get("cancel_reason", "canceled"))
        if self._gateway.refused(reason):
            raise _Lost(reason)
        if "permission denied" in reason:
            raise EtcdRefusedError(f"etcd does not allow the watch: {reason}", PERMISSION_DENIED)
        raise _Lost(reason)

    async def _read(self, lines: "_Lines", member: str) -> None:
        """Report the events of a stream until it ends."""
        try:
            while line := await lines.next():
                message = parsed(line)
                if "result" not in message:
                    raise _Lost(f"{message.get('error')}")
                result = part(message, "result")
                self._check(result)
                self._report(changes_of(result), complete=not result.get("fragment"))
        except (_Gap, MalformedError) as error:
            self._forget(str(error))
        except (_Lost, HttpError, MagnetarError) as error:
            log.info("watch ended member=%s reason=%s", member, error)
            self._gateway.leave(member)
        finally:
            lines.close()

    def _report(self, changes: list[KeyChange], *, complete: bool) -> None:
        for change in changes:
            if change.revision >= self._next:
                self._changed(change)
        if changes:  # the last revision of a fragment may continue in the next one
            self._next = max(self._next, changes[-1].revision + complete)


class _Lines:
    """Lines of a streamed answer. Raises _Lost at its end, which a part of a line before it does not change; _Gap for
    a line above LINE_BYTES_MAX."""

    def __init__(self, answer: StreamedAnswer) -> None:
        self._answer = answer
        self._buffer = bytearray()
        self._searched = 0

    async def next(self) -> bytes:
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            if self._searched > LINE_BYTES_MAX:
                raise _Gap(f"a message has more than {LINE_BYTES_MAX} bytes")
            piece = await self._answer.read()
            if not piece:
                raise _Lost("the stream ended")
            self._buffer += piece

    def close(self) -> None:
        self._answer.close()
