"""The work of a copy: read, publish, wait for receipts, acknowledge what is moved, and report how far it came.

What is reported was stored at the target, and acknowledged at the source if it is moved. After a failure that may pass,
the work goes on from the last report: what was sent behind it is sent again under the same sequence ids.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from engine.admin.api.arguments import MessagePosition
from engine.base.budget import Budget
from engine.base.errors import Failed, InvalidNameError, MagnetarError
from engine.base.names import TopicName
from engine.client.client import PulsarClient
from engine.client.errors import MessageTooLargeError, RefusedError, ServerError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    PartitionProducer,
    ProducerSettings,
    SendResult,
)
from engine.wire import client_commands as say
from gateway.services.browsing.opening import BrowsedMessage, Kind
from gateway.services.browsing.values import TopicValues
from gateway.services.copying.acknowledging import states_of
from gateway.services.copying.conditions import Conditions, letter_of
from gateway.services.copying.outgoing import outgoing_of, partition_choice
from gateway.services.copying.plan import CopyPlan
from gateway.services.copying.reading import SourcePage, SourcePlace, pages, whole_chunked
from gateway.services.copying.retrying import until_done
from gateway.services.engine_link import Engine

SLICE_MAX = 500
"""Messages that are sent before their receipts are awaited."""
BYTES_IN_FLIGHT = 64 << 20


@dataclass(slots=True)
class CopiedCounts:
    """Amounts of a copy. ``copied``: stored by this copy according to its receipts; ``repeated``: the broker had them
    already; ``acknowledged``: at the source of a move, or at the subscriptions of an undo; ``consumed``: what an undo
    found acknowledged; ``unclear``: what it found acknowledged where it had been interrupted, by itself or by a
    consumer; ``not_copied``: matching messages that cannot be copied."""

    entries: int = 0
    scanned: int = 0
    matched: int = 0
    copied: int = 0
    repeated: int = 0
    acknowledged: int = 0
    consumed: int = 0
    unclear: int = 0
    not_copied: int = 0

    def as_json(self) -> dict[str, int]:
        return asdict(self)


class CopyProgress(NamedTuple):
    """A report: where the work goes on, its amounts, and the failure that it waits for, empty for none."""

    place: SourcePlace
    counts: CopiedCounts
    problem: str = ""


Report = Callable[[CopyProgress], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Task:
    """A copy to be made. ``target`` empty: the origin that each letter names. ``subscription``: of the source, whose
    unacknowledged messages are moved; empty: messages are copied. ``rate``: messages a second. ``producer``: name of
    its producers, without the number of the source's partition."""

    source: TopicName
    target: str
    subscription: str
    rate: int
    producer: str
    conditions: Conditions
    plan: CopyPlan


class MessageCopier:
    """One attempt at a task. ``report`` is awaited for each slice; what it raises ends the work."""

    def __init__(
        self,
        engine: Engine,
        client: PulsarClient,
        task: Task,
        place: SourcePlace,
        counts: CopiedCounts,
        report: Report,
    ) -> None:
        self._engine = engine
        self._client = client
        self._task = task
        self._place = place
        self._counts = counts
        self._report = report
        self._values = TopicValues(task.source)
        self._budget = Budget(BYTES_IN_FLIGHT)
        self._producers: dict[tuple[int, str], PartitionProducer] = {}
        self._versions: dict[tuple[str, bytes], bytes] = {}
        self._due_s = time.monotonic()
        self._tried: dict[MessagePosition, bool] = {}
        """Matching messages of the slice under way, and whether they can be copied."""
        self._unanswered: set[MessagePosition] = set()
        """Messages of it that were to be acknowledged by a call without an answer."""
        self.refusal = ""
        """Reason of the first refusal of a single message by its target; such messages are not copied."""

    async def run(self) -> None:
        """Copy to the end. Raises the errors that do not pass by themselves, and those of ``report``."""

        async def report(problem: str) -> None:
            await self._report(CopyProgress(self._place, self._counts, problem))

        await until_done(self._attempt, report, lambda: self._place)

    async def _leave(self) -> None:
        producers, self._producers = list(self._producers.values()), {}
        for producer in producers:
            await asyncio.shield(producer.close())

    async def _attempt(self) -> None:
        try:
            await self._copy()
        finally:
            await self._leave()

    async def _copy(self) -> None:
        step = max(min(SLICE_MAX, self._task.rate // 2), 1)
        async for page in pages(self._engine, self._task.plan, self._place):
            await self._values.fetch(self._engine, page.messages)
            part = self._task.plan.sources[page.part]
            chosen = await asyncio.to_thread(self._chosen, part.topic, page.messages)
            numbers = [number for number, taken in enumerate(chosen) if taken]
            slices = [numbers[i : i + step] for i in range(0, len(numbers), step)]
            done = 0
            for chosen_now in slices[:-1]:
                stop = chosen_now[-1] + 1
                await self._slice(page, chosen_now)
                self._counts.scanned += stop - done
                done = stop
                following = page.messages[stop]
                await self._reached(SourcePlace(page.part, *following.position))
            if slices:
                await self._slice(page, slices[-1])
            self._counts.scanned += len(page.messages) - done
            await self._reached(page.after)

    def _chosen(self, topic: str, messages: Sequence[BrowsedMessage]) -> list[bool]:
        conditions, text = self._task.conditions, self._values.text
        name = str(TopicName.parse(topic).partitioned)
        return [
            message.message is not None
            and not _is_later_chunk(message)  # its message is copied with the first one
            and conditions.matches(name, message, text)
            for message in messages
        ]

    async def _reached(self, place: SourcePlace) -> None:
        self._place = place
        self._counts.entries = self._task.plan.entries_before(*place[:3])
        await self._report(CopyProgress(place, self._counts))

    async def _slice(self, page: SourcePage, numbers: Sequence[int]) -> None:
        """Publish messages of a page and acknowledge those that are moved."""
        part, subscription = self._task.plan.sources[page.part], self._task.subscription
        messages = [page.messages[number] for number in numbers]
        if subscription:
            messages = await self._held(part.topic, messages)
        sent: list[_Copy] = []
        begun_again: list[MessagePosition] = []
        for message in messages:
            places, value = [MessagePosition(*message.position)], _value(message)
            if message.kind is Kind.CHUNK:
                joined = await whole_chunked(self._engine, part, message)
                if joined.is_begun_again:
                    begun_again += joined.places
                    continue
                places, value = joined.places, joined.value
            lacks_chunks = message.kind is Kind.CHUNK and value is None
            copy = None if lacks_chunks else await self._copy_of(page.part, message, value)
            self._tried[places[0]] = copy is not None
            if copy is not None:
                sent.append(copy._replace(places=places))
        refused = await self._publish(sent)
        self._tried |= dict.fromkeys(refused, False)
        if subscription:
            moved = [copy.places for copy in sent if copy.places[0] not in refused]
            await self._acknowledge(part.topic, begun_again, moved)
        # Only now: a slice that fails is copied again, and would count twice.
        self._counts.matched += len(self._tried)
        self._counts.not_copied += list(self._tried.values()).count(False)
        self._tried.clear()
        await self._pace(len(sent))

    async def _copy_of(
        self, number: int, browsed: BrowsedMessage, value: bytes | None
    ) -> "_Copy | None":
        """Return the copy of a message, with its producer and sequence id; None when it cannot be copied."""
        task = self._task
        part = task.plan.sources[number]
        origin = letter_of(str(task.source.partitioned), browsed).origin
        topic = task.target or _full(origin)
        target = task.plan.targets.get(topic)
        if target is None:
            return None
        if browsed.kind is Kind.ENCRYPTED and browsed.metadata.num_chunks_from_msg > 1:
            return None
        ordinal = part.ordinal(browsed.ledger_id, browsed.entry_id)
        member = target.member(topic, partition_choice(browsed, ordinal))
        version = await self._version(topic, member, browsed.metadata.schema_version)
        producer = await self._producer(number, member)
        outgoing = outgoing_of(browsed, value, version, as_origin=not task.target)
        return _Copy(producer, outgoing, part.sequence(*browsed.position))

    async def _version(self, topic: str, member: str, version: bytes) -> bytes:
        """Return the version in the target of a schema of the source, registered there if it was not. Raises
        RefusedError when it is not compatible there."""
        if not version:
            return b""
        known = self._versions.get((topic, version))
        if known is None:
            schema = await self._client.schema(str(self._task.source.partitioned), version)
            link = await self._client.owner(member)
            request = link.new_id()
            frame = say.get_or_create_schema(member, request, schema)
            answer = await link.request(request, frame)
            known = self._versions[topic, version] = bytes(answer.schema_version)
        return known

    async def _producer(self, number: int, member: str) -> PartitionProducer:
        """Return the producer for copies from a part to a topic. Raises RefusedError: a producer of another attempt,
        which has the same name, must have left."""
        producer = self._producers.get((number, member))
        if producer is None:
            settings = ProducerSettings(
                name=f"{self._task.producer}{number}", initial_sequence_id=-1, chunking=True
            )
            producer = PartitionProducer(self._client, member, settings, self._budget, _deliver)
            await producer.open()
            self._producers[number, member] = producer
        return producer

    async def _publish(self, sent: Sequence["_Copy"]) -> Collection[MessagePosition]:
        """Publish copies and wait for the receipts; return the messages of those that were refused alone. Raises the
        first error."""
        if not sent:
            return ()
        receipts = _Receipts(len(sent))
        for copy in sent:
            copy.outgoing.token = receipts, copy.places[0]
            copy.producer.send_as(copy.outgoing, copy.sequence)
        await receipts.complete
        self._counts.copied += receipts.stored
        self._counts.repeated += receipts.repeated
        if receipts.error is not None:
            raise receipts.error
        for reason in receipts.refused.values():
            self.refusal = self.refusal or reason
        return receipts.refused

    async def _held(self, topic: str, messages: Sequence[BrowsedMessage]) -> list[BrowsedMessage]:
        """Return the messages that the subscription has not acknowledged."""
        places = [MessagePosition(*message.position) for message in messages]
        states = await states_of(self._engine, topic, self._task.subscription, places)
        held = []
        for message, place, state in zip(messages, places, states, strict=True):
            if state == "held":
                held.append(message)
            elif place in self._unanswered:
                # This copy acknowledged it, by a call whose answer was lost.
                self._counts.acknowledged += state == "acknowledged"
        self._unanswered.clear()
        return held

    async def _acknowledge(
        self,
        topic: str,
        begun_again: Sequence[MessagePosition],
        moved: Sequence[Sequence[MessagePosition]],
    ) -> None:
        """Acknowledge the chunks of messages that begin again behind them, and all places of messages that are stored
        at the target."""
        places = list(begun_again)
        for of_one in moved:
            # The first chunk is the last: while it is held, the message is moved again after an interruption.
            places += reversed(of_one)
        self._unanswered = {of_one[0] for of_one in moved}
        states = await states_of(self._engine, topic, self._task.subscription, places, dry=False)
        first = self._unanswered
        self._counts.acknowledged += sum(
            state == "held" for place, state in zip(places, states, strict=True) if place in first
        )
        self._unanswered = set()

    async def _pace(self, messages: int) -> None:
        """Wait so that no more than ``rate`` messages a second are sent."""
        now_s = time.monotonic()
        self._due_s = max(self._due_s, now_s - 1.0) + messages / self._task.rate
        if self._due_s > now_s:
            await asyncio.sleep(self._due_s - now_s)


class _Copy(NamedTuple):
    """A copy to be sent. ``places``: of its message in the source, several of one in chunks, the first chunk first."""

    producer: PartitionProducer
    outgoing: OutgoingMessage
    sequence: int
    places: Sequence[MessagePosition] = ()


class _Receipts:
    """Receipts of one slice. ``repeated``: those that name no position, of what the broker had already. ``refused``:
    reasons by message of refusals that do not affect the others."""

    def __init__(self, count: int) -> None:
        self.complete = asyncio.get_running_loop().create_future()
        self.stored = self.repeated = 0
        self.refused: dict[MessagePosition, str] = {}
        self.error: MagnetarError | None = None
        self._missing = count

    def add(self, result: SendResult, place: MessagePosition) -> None:
        if result.message_id is None and _is_of_one(result.error):
            # Messages behind it are stored. Sent again later, it would be taken for a repetition.
            self.refused[place] = str(result.error)
        elif result.message_id is None:
            self.error = self.error or result.error or Failed("a copy was not stored")
        elif result.message_id.position.ledger_id >= 0:
            self.stored += 1
        else:
            self.repeated += 1
        self._missing -= 1
        if not self._missing and not self.complete.done():
            self.complete.set_result(None)


def _deliver(results: Sequence[SendResult]) -> None:
    for result in results:
        receipts, place = result.token
        receipts.add(result, place)


def _is_of_one(error: MagnetarError | None) -> bool:
    """Return whether an error is of one message, behind which others may be stored."""
    if isinstance(error, RefusedError):
        return error.code in (ServerError.NotAllowedError, ServerError.ChecksumError)
    return isinstance(error, MessageTooLargeError)


def _is_later_chunk(message: BrowsedMessage) -> bool:
    return message.kind is Kind.CHUNK and message.metadata.chunk_id > 0


def _value(browsed: BrowsedMessage) -> bytes | None:
    assert browsed.message is not None, "markers and damaged entries are not chosen"
    return browsed.message.value


def _full(topic: str) -> str:
    """Return the full name of an origin, empty for one that is no name."""
    try:
        return str(TopicName.parse(topic).partitioned) if topic else ""
    except InvalidNameError:
        return ""
