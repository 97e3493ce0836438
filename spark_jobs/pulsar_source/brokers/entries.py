"""Entries of a ledger as the topic's broker delivers them (Q5), and the end of a topic. No subscription is left behind.

A broker delivers no markers, nor entries that it was configured to skip when they are lost: an entry that is missing
between two others is not known to be lost.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST, Position
from engine.base.slices import Slice
from engine.client.client import PulsarClient, Reassigned, reassigned_by
from engine.client.errors import NoAnswerError
from engine.client.raw_consumer import RawConsumer
from engine.client.raw_reader import RawReader
from engine.wire.events import Delivered
from spark_jobs.pulsar_source.partitions import LedgerRange

log = logging.getLogger(__name__)
OPEN_S = 30.0
"""Seconds in which a reader must be opened, for instance while the topic moves to another broker."""
ASK_S = 0.5
"""Seconds without an entry after which the topic's last position is requested."""
ENDS = 3
"""Answers in a row, ASK_S apart, that nothing follows: a broker confirms an entry after the bookies have it."""
STALLED_S = 60.0
"""Seconds without an entry after which a range that has more of them fails."""
WINDOW_BYTES = 16 << 20
WINDOW_MAX = 1000
ENTRY_BYTES = 64 << 10
"""Assumed bytes of an entry in a range whose size is not known."""


class BrokerEntries:
    """The entries of a range, in order, as slices of the stored bytes."""

    def __init__(self, client: PulsarClient, ledger_range: LedgerRange) -> None:
        self._client = client
        self._range = ledger_range
        size = ledger_range.size // ledger_range.entries or ENTRY_BYTES
        self._window = max(1, min(WINDOW_MAX, WINDOW_BYTES // size))
        self._reader: RawReader | None = None
        self._moved: Reassigned | None = None
        self._ended = False
        """An entry behind the range was delivered."""

    async def read(self, first: int) -> list[Slice]:
        """Return entries of the range from ``first`` on, at least one; none when the topic has no more of them.

        ``first`` is behind the last entry that was returned. Raises RefusedError, NoAnswerError; other errors of the
        client once they have lasted for OPEN_S.
        """
        place = Position(self._range.ledger_id, first)
        end = Position(self._range.ledger_id, self._range.last)
        loop = asyncio.get_running_loop()
        until = loop.time() + STALLED_S
        ends = 0
        while ends < ENDS and not self._ended:
            if loop.time() > until:
                raise NoAnswerError(f"no entry was delivered for {STALLED_S:.0f} s")
            reader = self._reader or await self._open(first)
            try:
                async with asyncio.timeout(ASK_S):
                    delivered = await reader.next()
            except TimeoutError:
                delivered = []
            except MagnetarError as error:
                log.info("%s is read on from entry %d: %s", self._range.topic, first, error)
                self._reader, self._moved = None, reassigned_by(error, reader.consumer.link)
                continue
            self._ended = bool(delivered) and delivered[-1].position > end
            if wanted := [entry for entry in delivered if place <= entry.position <= end]:
                return slices_of(wanted)
            if not delivered:
                ends = ends + 1 if await self._is_end(reader, place) else 0
        self.close()
        return []

    async def _is_end(self, reader: RawReader, place: Position) -> bool:
        """Return whether the topic has no message from ``place`` on."""
        try:
            last = await reader.consumer.last_position()
        except MagnetarError as error:
            log.debug("the last position is requested again: %s", error)
            return False
        return last.entry_id < 0 or last < place

    async def _open(self, first: int) -> RawReader:
        async def attach() -> RawReader:
            moved, self._moved = self._moved, None
            return await RawReader.open(
                await self._client.owner(self._range.topic, moved),
                self._range.topic,
                name=_name(self._client),
                start=Position(self._range.ledger_id, first - 1),
                window=self._window,
                create=False,
            )

        self._reader = await self._client.patiently(attach, timeout_s=OPEN_S)
        return self._reader

    def close(self) -> None:
        """Detach from the topic."""
        if self._reader is not None:
            self._reader.consumer.leave()
            self._reader = None


def slices_of(entries: Sequence[Delivered]) -> list[Slice]:
    """Return entries of one ledger as slices, each without a gap."""
    runs: list[list[Delivered]] = []
    for entry in entries:
        if runs and runs[-1][-1].position.entry_id + 1 == entry.position.entry_id:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return [_slice_of(run) for run in runs]


def _slice_of(run: Sequence[Delivered]) -> Slice:
    spans: list[int] = []
    size = 0
    for delivered in run:
        spans += (size, size + len(delivered.entry))
        size += len(delivered.entry)
    buf = b"".join(delivered.entry for delivered in run)
    return Slice(buf, spans, size, None, *run[0].position)


async def next_entry(
    client: PulsarClient, ranges: Sequence[LedgerRange]
) -> tuple[Position, bytes] | None:
    """Return the first entry of the ranges that the broker delivers, with its position; None when it delivers none."""
    for ledger_range in ranges:
        # A window of one entry.
        whole = replace(ledger_range, size=WINDOW_BYTES * ledger_range.entries)
        entries = BrokerEntries(client, whole)
        try:
            runs = await entries.read(whole.first)
        finally:
            entries.close()
        if runs:
            return Position(whole.ledger_id, runs[0].first), bytes(runs[0].entry(0))
    return None


async def last_position(client: PulsarClient, topic: str) -> Position:
    """Return the position of the topic's last message; entry -1 when there is none. Raises as ``PulsarClient.owner``
    once its errors have lasted for OPEN_S."""

    async def ask() -> Position:
        consumer = await RawConsumer.open(
            await client.owner(topic),
            topic,
            _name(client),
            on_messages=lambda messages: None,
            durable=False,
            start=EARLIEST,
            create=False,
        )
        try:
            return await consumer.last_position()
        finally:
            consumer.leave()

    return await client.patiently(ask, timeout_s=OPEN_S)


def _name(client: PulsarClient) -> str:
    """Return a new name: a lost reader may still have the old one."""
    return f"spark-{client.entropy.hex(6)}"
