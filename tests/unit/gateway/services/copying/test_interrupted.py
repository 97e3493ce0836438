"""Copies, moves and undos that are interrupted at each of their calls, before or behind its effect.

A failed call is tried again by the same attempt. A killed process is followed by an attempt that begins where the last
report of the one before came to.
"""

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.cursors import ACKNOWLEDGE_MESSAGES
from engine.admin.api.messages import NEXT_ENTRIES
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.base.errors import NotReady
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.client import PulsarClient
from engine.client.errors import RefusedError, ServerError
from engine.client.message_ids import MessageId
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import SendResult
from engine.metadata.store import MetadataStore
from engine.wire.batches import Message, pack_entry
from engine.wire.errors import refusal
from gateway.services.copying import copier, reading, retrying
from gateway.services.copying.conditions import Conditions
from gateway.services.copying.copier import CopiedCounts, CopyProgress, MessageCopier, Task
from gateway.services.copying.plan import CopyPlan, SourcePart, Target
from gateway.services.copying.reading import SourcePlace
from gateway.services.copying.undoing import CopyUndoer
from gateway.services.engine_link import Engine

SOURCE, TARGET = "persistent://public/default/from", "persistent://public/default/to"
LEDGER = 7
OURS = "magnetar-copy-x-0"
Run = Callable[[SourcePlace, CopiedCounts, copier.Report], Awaitable[None]]
WAYS = ("failed before", "failed behind", "killed before", "killed behind")


class KilledError(Exception):
    """The process ended."""


class World:
    """A topic with its subscriptions, and a target that deduplicates. Call number ``interrupted_at`` is interrupted."""

    def __init__(self, entries: list[bytes], interrupted_at: int = -1, way: str = WAYS[0]) -> None:
        self.entries = entries
        self.subscriptions: dict[str, set[MessagePosition]] = {"s": set()}
        """Acknowledged places by subscription."""
        self.stored: list[bytes] = []
        self.calls = 0
        self._interrupted_at = interrupted_at
        self._way = way
        self._highest = -1
        self.refused = b""
        """Value that the target refuses, which does not affect the others."""
        self.error: NotReady | None = None
        """Failure of the producer, after which it sends nothing until it is opened again."""

    def perform(self, effect: Callable[[], Any]) -> Any:
        """Return what the effect of a call returns, unless this one is interrupted."""
        number, self.calls = self.calls, self.calls + 1
        if number != self._interrupted_at:
            return effect()
        if self._way.endswith("behind"):
            effect()
        raise KilledError if self._way.startswith("killed") else NotReady("the answer is lost")

    # --- as the brokers -----------------------------------------------------------------------

    async def call(self, operation: Any, args: Any, *, principal: str = "") -> Any:
        perform = {
            NEXT_ENTRIES.name: lambda: self._next(args),
            ACKNOWLEDGE_MESSAGES.name: lambda: self._acknowledge(args),
            SUBSCRIPTIONS.name: lambda: list(self.subscriptions),
        }
        return self.perform(perform[operation.name])

    def _next(self, args: Any) -> Any:
        first = max(args.start.entry_id, 0)
        rows = [
            [LEDGER, number, b64encode(self.entries[number]).decode()]
            for number in range(first, min(first + 4, len(self.entries)))
        ]
        following = first + len(rows)
        return {
            "entries": rows,
            "more": following < len(self.entries),
            "next": [LEDGER, following],
        }

    def _acknowledge(self, args: Any) -> Any:
        acknowledged = self.subscriptions[args.subscription]
        states = ["acknowledged" if at in acknowledged else "held" for at in args.messages]
        if not args.dry:
            acknowledged.update(args.messages)
        return {"states": states}

    # --- as a producer ------------------------------------------------------------------------

    def send_as(self, outgoing: OutgoingMessage, sequence: int) -> None:
        def store() -> MessageId:
            if outgoing.payload == self.refused:
                raise refusal(ServerError.NotAllowedError, "above the limit of the topic")
            if sequence <= self._highest:
                return MessageId(Position(-1, -1))
            self._highest = sequence
            self.stored.append(outgoing.payload)
            return MessageId(Position(1, len(self.stored)))

        if self.error is None:
            try:
                result = SendResult(outgoing.token, self.perform(store))
            except RefusedError as error:
                result = SendResult(outgoing.token, None, error)
            except NotReady as error:
                self.error = error
        if self.error is not None:
            # What is behind a failed message is not stored before it: a producer fails all that wait.
            result = SendResult(outgoing.token, None, self.error)
        asyncio.get_running_loop().call_soon(copier._deliver, [result])

    async def close(self) -> None:
        """Close the producer."""
        self.error = None


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    async def producer(of: Any, number: int, member: str) -> Any:
        return of._producers.setdefault((number, member), of._client)  # the world

    monkeypatch.setattr(MessageCopier, "_producer", producer)
    monkeypatch.setattr(retrying, "RETRY_S", (0.0,))


def entry(*values: bytes, producer: str = "p", **extra: Any) -> bytes:
    return pack_entry(
        [Message(value) for value in values], producer_name=producer, publish_ms=1, extra=extra
    )


def chunk(uuid: str, number: int, count: int, value: bytes, producer: str = "p") -> bytes:
    """Return a chunk of a message, without compression."""
    size = {"uncompressed_size": len(value) * count, "total_chunk_msg_size": len(value) * count}
    of = {"uuid": uuid, "chunk_id": number, "num_chunks_from_msg": count}
    return entry(value, producer=producer, **of, **size)


def messages_of_all_kinds() -> list[bytes]:
    """Return entries of eleven messages, one of which cannot be copied: single ones, batches, and messages in chunks.

    ``twice`` was begun, and then sent anew from its first chunk on; ``gap`` lacks a chunk.
    """
    return [
        entry(b"0"),
        entry(b"1", b"2", b"3"),
        chunk("twice", 0, 3, b"a"),
        chunk("twice", 1, 3, b"b"),
        entry(b"4"),
        chunk("gap", 0, 3, b"x"),
        chunk("twice", 0, 3, b"a"),
        chunk("whole", 0, 2, b"c"),
        chunk("gap", 2, 3, b"z"),
        chunk("twice", 1, 3, b"b"),
        chunk("twice", 1, 3, b"b"),
        entry(b"5", b"6"),
        chunk("whole", 1, 2, b"d"),
        chunk("twice", 2, 3, b"c"),
        entry(b"7"),
    ]


VALUES = [b"0", b"1", b"2", b"3", b"4", b"abc", b"cd", b"5", b"6", b"7"]
"""Values of the copies in the order of the first chunks."""


def engine_of(world: World) -> Engine:
    return Engine(cast(MetadataStore, None), cast(Any, world))


def task_of(count: int, subscription: str, topic: str = SOURCE) -> Task:
    part = SourcePart(topic, [[LEDGER, 0]], [LEDGER, 0], [LEDGER, count - 1], count)
    plan = CopyPlan([part], {TARGET: Target(0, deduplicated=True)})
    name = TopicName.parse(SOURCE)
    return Task(name, TARGET, subscription, 1_000_000, OURS, Conditions(), plan)


def copying(world: World, subscription: str) -> Run:
    async def run(place: SourcePlace, counts: CopiedCounts, report: copier.Report) -> None:
        task = task_of(len(world.entries), subscription)
        client = cast(PulsarClient, world)
        made = MessageCopier(engine_of(world), client, task, place, counts, report)
        await made.run()

    return run


async def done(run: Run, check: Callable[[CopiedCounts], None]) -> CopiedCounts:
    """Make attempts until one ends; return its counts. ``check`` is called with each report."""
    place, counts, attempts = SourcePlace(), CopiedCounts(), 0

    async def report(progress: CopyProgress) -> None:
        nonlocal place, counts
        place, counts = progress.place, replace(progress.counts)
        check(counts)

    while True:
        attempts += 1
        try:
            await run(place, replace(counts), report)
            return counts
        except KilledError:
            assert attempts < 3


async def calls_of(make: Callable[[World], Run], world: World) -> int:
    await done(make(world), lambda counts: None)
    return world.calls


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("subscription", ["", "s"], ids=["copy", "move"])
async def test_each_message_is_copied_once_wherever_it_is_interrupted(
    subscription: str, way: str
) -> None:
    entries = messages_of_all_kinds()
    total = await calls_of(lambda world: copying(world, subscription), World(entries))
    assert total > 15
    for number in range(total):
        world = World(entries, number, way)

        def check(counts: CopiedCounts, world: World = world) -> None:
            assert counts.copied <= len(world.stored)
            assert counts.acknowledged <= len(world.stored)
            assert counts.matched <= len(VALUES) + 1
            assert counts.not_copied <= 1

        counts = await done(copying(world, subscription), check)
        at = f"{way} call {number}"
        assert Counter(world.stored) == Counter(VALUES), at
        assert (counts.entries, counts.not_copied) == (len(entries), 1), at
        if way.startswith("failed"):
            assert (counts.matched, counts.scanned) == (len(VALUES) + 1, 18), at
        if not subscription:
            continue
        left = {
            number
            for number in range(len(entries))
            if not any(place.entry_id == number for place in world.subscriptions["s"])
        }
        assert left == {5, 8}, f"{at}: the chunks of the message that is not copied stay"
        if way.startswith("failed"):
            assert counts.acknowledged == len(VALUES), at


@pytest.mark.parametrize("way", WAYS)
async def test_an_undo_takes_all_copies_back_and_never_says_that_a_consumer_had_them(
    way: str,
) -> None:
    entries = [
        entry(b"0", producer=OURS),
        entry(b"others"),
        chunk("c", 0, 2, b"a", OURS),
        chunk("c", 0, 2, b"a", OURS),
        chunk("c", 1, 2, b"b", OURS),
        *(entry(b"%d" % number, producer=OURS) for number in range(8)),
    ]
    copies, consumed = 10, 1

    def undoing(world: World) -> Run:
        attempts = 0
        world.subscriptions = {"s": {MessagePosition(LEDGER, 0)}, "t": set()}

        async def run(place: SourcePlace, counts: CopiedCounts, report: copier.Report) -> None:
            nonlocal attempts
            attempts += 1
            task = task_of(len(entries), "", TARGET)
            again = attempts > 1
            await CopyUndoer(engine_of(world), task, place, counts, report, again=again).run()

        return run

    world = World(entries)
    counts = await done(undoing(world), lambda counts: None)
    assert (counts.acknowledged, counts.consumed, counts.unclear) == (19, consumed, 0)
    for number in range(world.calls):
        world = World(entries, number, way)
        counts = await done(undoing(world), lambda counts: None)
        at = f"{way} call {number}"
        ours = {MessagePosition(LEDGER, n) for n in range(len(entries)) if n != 1}
        assert world.subscriptions == {"s": ours, "t": ours}, at
        assert (counts.matched, counts.entries) == (copies, len(entries)), at
        assert counts.consumed <= consumed, at
        assert counts.acknowledged + counts.consumed + counts.unclear == 2 * copies, at


async def test_a_message_that_is_too_large_is_not_copied_and_stays_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "CHUNKED_BYTES_MAX", 1)
    world = World([chunk("c", 0, 2, b"a"), entry(b"0"), chunk("c", 1, 2, b"b")])
    counts = await done(copying(world, "s"), lambda counts: None)
    assert world.stored == [b"0"]
    assert world.subscriptions["s"] == {MessagePosition(LEDGER, 1)}
    assert (counts.matched, counts.copied, counts.not_copied) == (2, 1, 1)


async def test_a_message_that_its_target_refuses_stays_where_it_is() -> None:
    world = World([entry(b"0", b"1", b"2")])
    world.refused = b"1"
    counts = await done(copying(world, "s"), lambda counts: None)
    assert world.stored == [b"0", b"2"]
    assert world.subscriptions["s"] == {
        MessagePosition(LEDGER, 0, 0),
        MessagePosition(LEDGER, 0, 2),
    }
    amounts = counts.matched, counts.copied, counts.acknowledged, counts.not_copied
    assert amounts == (3, 2, 2, 1)
