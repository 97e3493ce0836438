"""CommitGroup commit: transactions become durable in groups, and what shows them is sent afterwards, in order.

Changes are made in memory at once, in the order of requests. Those of one turn of the loop, and of the time in which an
earlier group is on its way to the disk, are one group: one write, one sync. A frame (an answer or an event) that shows
a change of a group is kept until that group is durable (Z1). The frames of one connection stay in order.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from engine.base.disk.files import Lane
from engine.base.loop import last_call
from engine.metadata.server.changes import Transaction
from engine.metadata.server.storage.change_format import StoreFileHeader, encode_transactions
from engine.metadata.server.storage.metadata_log import LogFullError, LogWriter

T = TypeVar("T")
FULL_RETRY_S = 1.0
"""Time after which a full disk is checked again."""


class FrameReceiver(Protocol):
    """A connection, as the groups see it."""

    last_group: int
    """Number of the last group that a frame for it waits for; 0 at first."""

    def send(self, data: bytes) -> None: ...

    def keep(self, size: int) -> None:
        """Note that a frame of that size waits."""
        ...

    def let_go(self, size: int) -> None:
        """Note that a frame that waited has been sent."""
        ...


class CommitGroup:
    """Transactions with one sync, and the frames that wait for it."""

    __slots__ = ("_listed", "_paths", "frames", "number", "transactions", "zxid")

    def __init__(self, number: int, zxid: int) -> None:
        self.number = number
        self.zxid = zxid
        self.transactions: list[Transaction] = []
        self.frames: list[tuple[FrameReceiver, bytes]] = []
        self._paths: set[str] = set()
        self._listed = 0

    def changes(self, paths: Iterable[str]) -> bool:
        """Return whether a transaction changes one of ``paths``. Only reads ask, so that writes list no paths."""
        for transaction in self.transactions[self._listed :]:
            self._paths.update(transaction.paths())
        self._listed = len(self.transactions)
        return not self._paths.isdisjoint(paths)


class GroupCommit:
    """The groups that are not durable: at most one on its way to the disk, and the open one that takes changes.

    ``on_failure`` is called once, when a group cannot be written for another reason than a full disk: nothing is sent
    any more, and the process must end. ``on_room`` is called with False when only the reserve of the log is left, and
    with True when there is room again.
    """

    def __init__(
        self,
        writer: LogWriter,
        lane: Lane,
        zxid: int,
        *,
        on_failure: Callable[[BaseException], None],
        on_room: Callable[[bool], None],
    ) -> None:
        self._writer = writer
        self._lane = lane
        self._on_failure = on_failure
        self._on_room = on_room
        self._loop = asyncio.get_running_loop()
        self._call_last = last_call(self._loop)
        self._open = CommitGroup(1, zxid)
        self._flight: CommitGroup | None = None
        self._due = False
        self._waiters: list[asyncio.Future[None]] = []
        self._roll: _Roll[Any] | None = None
        self._stuck: tuple[CommitGroup, bytes] | None = None
        """The group that did not fit on the disk."""
        self._retry: asyncio.TimerHandle | None = None
        self._stopped = False
        self.durable = 0
        """Number of the last durable group."""
        self.durable_zxid = zxid
        self.has_room = True
        self.log_bytes = 0
        """Bytes of the groups written so far; a snapshot sets it back."""
        self.groups = 0
        self.on_group: Callable[[], None] | None = None
        """Called after each group."""

    @property
    def open_group(self) -> int:
        """Number of the group that takes changes now."""
        return self._open.number

    @property
    def idle(self) -> bool:
        """True when everything is durable."""
        return self._flight is None and not self._open.transactions

    @property
    def waiting(self) -> int:
        """Frames that wait for their group."""
        flight = self._flight
        return len(self._open.frames) + (0 if flight is None else len(flight.frames))

    def add(self, transaction: Transaction) -> None:
        """Add a transaction that has been executed."""
        group = self._open
        group.transactions.append(transaction)
        group.zxid = transaction.zxid
        self._commit_soon()

    def showing(self, paths: Iterable[str] | None) -> int:
        """Return the last group that changes one of ``paths`` (None: any path) and is not durable; 0 without one."""
        group, flight = self._open, self._flight
        if group.transactions and (paths is None or group.changes(paths)):
            return group.number
        if flight is not None and (paths is None or flight.changes(paths)):
            return flight.number
        return 0

    def zxid_for(self, receiver: FrameReceiver, group: int) -> int:
        """Return the zxid for the head of an answer that shows ``group``: all events of the receiver up to it are sent
        before that answer, and no change behind it shows."""
        number = max(group, receiver.last_group)
        if number <= self.durable:
            return self.durable_zxid
        return self._group(number).zxid

    def emit(self, receiver: FrameReceiver, frame: bytes, group: int) -> None:
        """Send a frame that shows ``group`` as soon as that is durable and earlier frames have been sent."""
        number = max(group, receiver.last_group)
        if number <= self.durable:
            receiver.send(frame)
            return
        receiver.last_group = number
        receiver.keep(len(frame))
        self._group(number).frames.append((receiver, frame))

    def _group(self, number: int) -> CommitGroup:
        flight = self._flight
        return flight if flight is not None and flight.number == number else self._open

    def roll(self, capture: Callable[[], T]) -> "asyncio.Future[tuple[StoreFileHeader, T]]":
        """Begin another segment. The result is its header and what ``capture`` returned.

        ``capture`` is called when all transactions added so far are in earlier segments, and all later ones will be in
        the new one. Raises LogFullError. One call at a time.
        """
        future: asyncio.Future[tuple[StoreFileHeader, T]] = self._loop.create_future()
        self._roll = _Roll(capture, future)
        self._commit_soon()
        return future

    async def until_durable(self, number: int) -> None:
        """Wait until a group is durable. Cancel-safe; never returns after a failure."""
        while self.durable < number:
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(future)
            await future

    async def drain(self) -> None:
        """Wait until all transactions are durable."""
        if self._open.transactions:
            await self.until_durable(self._open.number)
        elif self._flight is not None:
            await self.until_durable(self._flight.number)

    def stop(self) -> None:
        """Write and send nothing more."""
        self._stopped = True
        if self._retry is not None:
            self._retry.cancel()

    def _commit_soon(self) -> None:
        if not self._due and self._flight is None:
            self._due = True
            # Not at once: other requests received in this turn of the loop join the same group.
            self._call_last(self._commit_due)

    def _commit_due(self) -> None:
        self._due = False
        if self._open.transactions or self._roll is not None:
            self._commit()

    def _commit(self) -> None:
        """Send the open group to the disk. An empty one finds out whether there is room."""
        if self._stopped or self._flight is not None:
            return
        group, roll = self._open, self._roll
        self._flight, self._roll = group, None
        self._open = CommitGroup(group.number + 1, group.zxid)
        if roll is not None:
            roll.captured = roll.capture()
        body = encode_transactions(group.transactions) if group.transactions else b""
        self._write(group, body, roll)

    def _write(self, group: CommitGroup, body: bytes, roll: "_Roll[Any] | None") -> None:
        if body and roll is None:
            self._writer.append_soon(self._lane, body, partial(self._appended, group, body))
            return
        self._lane.call(
            partial(self._append, body, group.zxid, roll is not None),
            partial(self._written, group, body, roll),
        )

    def _appended(
        self, group: CommitGroup, body: bytes, room: bool | None, error: BaseException | None
    ) -> None:
        self._written(group, body, None, None if room is None else (room, None), error)

    def _append(self, body: bytes, zxid: int, rolls: bool) -> tuple[bool, StoreFileHeader | None]:
        """Write a group and maybe begin a segment; runs in the lane.

        Return whether there is room for more, and the header of the segment, None if it did not fit.
        """
        writer = self._writer
        room = writer.append(body) if body else writer.has_room()
        if not rolls:
            return room, None
        try:
            return room, writer.begin_segment(zxid)
        except LogFullError:
            return False, None

    def _written(
        self,
        group: CommitGroup,
        body: bytes,
        roll: "_Roll[Any] | None",
        result: tuple[bool, StoreFileHeader | None] | None,
        error: BaseException | None,
    ) -> None:
        if self._stopped:
            return
        if result is None and not isinstance(error, LogFullError):
            self.stop()
            self._on_failure(error or AssertionError("a group without a result"))
            return
        room, header = result or (False, None)
        if roll is not None and not roll.future.done():
            roll.settle(header)
        if result is None:
            # The changes are made in memory, where they stay unseen until there is room.
            self._stuck = group, body
            self._set_room(False)
            return
        self._flight = None
        self.durable, self.durable_zxid = group.number, group.zxid
        self.groups += 1
        self.log_bytes += len(body)
        if self._open.transactions or self._roll is not None:
            self._commit()  # before the frames: the disk works while they are sent
        for receiver, frame in group.frames:
            receiver.send(frame)
            receiver.let_go(len(frame))
        self._set_room(room)
        if self.on_group is not None:
            self.on_group()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _set_room(self, room: bool) -> None:
        if not room and self._retry is None:
            self._retry = self._loop.call_later(FULL_RETRY_S, self._look_for_room)
        if room != self.has_room:
            self.has_room = room
            self._on_room(room)

    def _look_for_room(self) -> None:
        self._retry = None
        if self._stuck is not None:
            (group, body), self._stuck = self._stuck, None
            self._write(group, body, None)
        else:
            self._commit()  # a group that is on its way finds out itself


class _Roll(Generic[T]):
    """A segment that is to begin."""

    def __init__(
        self, capture: Callable[[], T], future: "asyncio.Future[tuple[StoreFileHeader, T]]"
    ) -> None:
        self.capture = capture
        self.future = future
        self.captured: T | None = None

    def settle(self, header: StoreFileHeader | None) -> None:
        if header is None:
            self.future.set_exception(LogFullError("there is no room for another segment"))
        else:
            self.future.set_result((header, self.captured))  # type: ignore[arg-type]
