"""The work of a copy: read, publish, wait for receipts, acknowledge what is moved, and report how far it came.

What is reported was stored at the target, and acknowledged at the source if it is moved. After a failure that may pass,
the work goes on from the last report: what was sent behind it is sent again under the same sequence ids.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.cursors import ACKNOWLEDGE_MESSAGES, ACKNOWLEDGED_MAX, AcknowledgeMessages
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.base.budget import Budget
from engine.base.errors import Failed, InvalidNameError, MagnetarError, NotFound
from engine.base.names import TopicName
from engine.client.client import PulsarClient
from engine.client.errors import RefusedError, ServerError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    PartitionProducer,
    ProducerSettings,
    SendResult,
)
from engine.wire import client_commands as say
from gateway.services.browsing.opening import BrowsedMessage, Kind
from gateway.services.browsing.values import TopicValues
from gateway.services.copying.conditions import Conditions, letter_of
from gateway.services.copying.outgoing import outgoing_of, partition_choice
from gateway.services.copying.plan import CopyPlan
from gateway.services.copying.reading import SourcePage, SourcePlace, pages, whole_chunked
from gateway.services.engine_link import FAILURES, Engine

log = logging.getLogger(__name__)
SLICE_MAX = 500
"""Messages that are sent before their receipts are awaited."""
BYTES_IN_FLIGHT = 64 << 20
RETRY_S = (0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class CopiedCounts:
    """Amounts of a copy. ``copied``: stored by this copy according to its receipts; ``repeated``: the broker had them
    already; ``acknowledged``: at the source of a move, or at the subscriptions of an undo; ``consumed``: what an undo
    found acknowledged; ``not_copied``: matching messages that cannot be copied."""

    entries: int = 0
    scanned: int = 0
    matched: int = 0
    copied: int = 0
    repeated: int = 0
    acknowledged: int = 0
    consumed: int = 0
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

    async def run(self) -> None:
        """Copy to the end. Raises the errors that do not pass by themselves, and those of ``report``."""
        failures = 0
        while True:
            place = self._place
            try:
                await self._attempt()
                return
            except FAILURES as error:
                if not _passes(error):
                    raise
                failures = 0 if self._place != place else failures + 1
                problem = str(error) or type(error).__name__
            finally:
                await self._leave()
            await self._report(CopyProgress(self._place, self._counts, problem))
            await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])

    async def _leave(self) -> None:
        producers, self._producers = list(self._producers.values()), {}
        for producer in producers:
            await asyncio.shield(producer.close())

    async def _attempt(self) -> None:
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
            message.message is not None and conditions.matches(name, message, text)
            for message in messages
        ]

    async def _reached(self, place: SourcePlace) -> None:
        self._place = place
        self._counts.entries = self._task.plan.entries_before(*place[:3])
        await self._report(CopyProgress(place, self._counts))

    async def _slice(self, page: SourcePage, numbers: Sequence[int]) -> None:
        """Publish messages of a page and acknowledge those that are moved."""
        task, counts = self._task, self._counts
        part = task.plan.sources[page.part]
        messages = [page.messages[number] for number in numbers]
        if task.subscription:
            messages = await self._held(part.topic, messages)
        counts.matched += sum(_is_first(message) for message in messages)
        sent: list[tuple[PartitionProducer, OutgoingMessage, int]] = []
        moved: list[BrowsedMessage] = []
        for message in messages:
            if message.kind is Kind.CHUNK and message.metadata.chunk_id:
                # Its message is copied with the first chunk.
                if task.subscription:
                    moved.append(message)
                continue
            copy = await self._copy_of(page.part, message)
            if copy is None:
                counts.not_copied += 1
                continue
            sent.append(copy)
            moved.append(message)
        await self._publish(sent)
        if task.subscription and moved:
            counts.acknowledged += await self._acknowledge(part.topic, task.subscription, moved)
        await self._pace(len(sent))

    async def _copy_of(
        self, number: int, browsed: BrowsedMessage
    ) -> tuple[PartitionProducer, OutgoingMessage, int] | None:
        """Return the copy of a message, with its producer and sequence id; None when it cannot be copied."""
        task = self._task
        part = task.plan.sources[number]
        origin = letter_of(str(task.source.partitioned), browsed).origin
        topic = task.target or _full(origin)
        target = task.plan.targets.get(topic)
        message = browsed.message
        if target is None or message is None:
            return None
        value = message.value
        if browsed.kind is Kind.CHUNK:
            value = await whole_chunked(self._engine, part, browsed)
            if value is None:
                return None
        elif browsed.kind is Kind.ENCRYPTED and browsed.metadata.num_chunks_from_msg > 1:
            return None
        ordinal = part.ordinal(browsed.ledger_id, browsed.entry_id)
        member = target.member(topic, partition_choice(browsed, ordinal))
        version = await self._version(topic, member, browsed.metadata.schema_version)
        producer = await self._producer(number, member)
        outgoing = outgoing_of(browsed, value, version, as_origin=not task.target)
        return producer, outgoing, part.sequence(*browsed.position)

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

    async def _publish(
        self, sent: Sequence[tuple[PartitionProducer, OutgoingMessage, int]]
    ) -> None:
        """Publish copies and wait for the receipts. Raises the first error."""
        if not sent:
            return
        receipts = _Receipts(len(sent))
        for producer, outgoing, sequence in sent:
            outgoing.token = receipts
            producer.send_as(outgoing, sequence)
        await receipts.complete
        if receipts.error is not None:
            raise receipts.error
        self._counts.copied += receipts.stored
        self._counts.repeated += len(sent) - receipts.stored

    async def _held(self, topic: str, messages: Sequence[BrowsedMessage]) -> list[BrowsedMessage]:
        """Return the messages that the subscription has not acknowledged."""
        states = await states_of(self._engine, topic, self._task.subscription, messages)
        return [m for m, state in zip(messages, states, strict=True) if state == "held"]

    async def _acknowledge(
        self, topic: str, subscription: str, messages: Sequence[BrowsedMessage]
    ) -> int:
        states = await states_of(self._engine, topic, subscription, messages, dry=False)
        return states.count("held")

    async def _pace(self, messages: int) -> None:
        """Wait so that no more than ``rate`` messages a second are sent."""
        now_s = time.monotonic()
        self._due_s = max(self._due_s, now_s - 1.0) + messages / self._task.rate
        if self._due_s > now_s:
            await asyncio.sleep(self._due_s - now_s)


async def take_back(
    engine: Engine,
    task: Task,
    place: SourcePlace,
    counts: CopiedCounts,
    report: Report,
    *,
    tally: dict[tuple[str, str], list[int]],
    dry: bool = False,
) -> None:
    """Acknowledge the copies that a task published, at each subscription of its targets, or with ``dry`` count them.
    What was acknowledged there before counts as ``consumed``. ``task.plan`` has the targets as its sources.

    ``tally``: gets both counts by target and subscription.
    """
    names: dict[str, list[str]] = {}
    async for page in pages(engine, task.plan, place):
        topic = task.plan.sources[page.part].topic
        ours = [m for m in page.messages if m.producer.startswith(task.producer)]
        counts.scanned += len(page.messages)
        counts.entries = task.plan.entries_before(*page.after[:3])
        counts.matched += sum(_is_first(message) for message in ours)
        if ours and topic not in names:
            names[topic] = await engine.call(SUBSCRIPTIONS, OnTopic(TopicName.parse(topic)))
        for subscription in names.get(topic, ()) if ours else ():
            states = await states_of(engine, topic, subscription, ours, dry=dry)
            held, consumed = states.count("held"), states.count("acknowledged")
            counts.acknowledged += held
            counts.consumed += consumed
            target = str(TopicName.parse(topic).partitioned)
            sums = tally.setdefault((target, subscription), [0, 0])
            sums[0] += held
            sums[1] += consumed
        await report(CopyProgress(page.after, counts))


async def states_of(
    engine: Engine,
    topic: str,
    subscription: str,
    messages: Sequence[BrowsedMessage],
    *,
    dry: bool = True,
) -> list[str]:
    """Return the states of messages for a subscription, after which they are acknowledged unless ``dry``. A
    subscription that is gone holds nothing."""
    states: list[str] = []
    for start in range(0, len(messages), ACKNOWLEDGED_MAX):
        places = [MessagePosition(*m.position) for m in messages[start : start + ACKNOWLEDGED_MAX]]
        args = AcknowledgeMessages(TopicName.parse(topic), subscription, places, dry=dry)
        answer: dict[str, Any] = await engine.call(ACKNOWLEDGE_MESSAGES, args)
        states += answer["states"]
    return states


class _Receipts:
    """Receipts of one slice. ``stored``: without those that name no position, of repetitions."""

    def __init__(self, count: int) -> None:
        self.complete = asyncio.get_running_loop().create_future()
        self.stored = 0
        self.error: MagnetarError | None = None
        self._missing = count

    def add(self, result: SendResult) -> None:
        if result.message_id is None:
            self.error = self.error or result.error or Failed("a copy was not stored")
        elif result.message_id.position.ledger_id >= 0:
            self.stored += 1
        self._missing -= 1
        if not self._missing and not self.complete.done():
            self.complete.set_result(None)


def _deliver(results: Sequence[SendResult]) -> None:
    for result in results:
        receipts: _Receipts = result.token
        receipts.add(result)


def _is_first(message: BrowsedMessage) -> bool:
    return message.kind is not Kind.CHUNK or not message.metadata.chunk_id


def _full(topic: str) -> str:
    """Return the full name of an origin, empty for one that is no name."""
    try:
        return str(TopicName.parse(topic).partitioned) if topic else ""
    except InvalidNameError:
        return ""


def _passes(error: BaseException) -> bool:
    """Return whether a failure may pass by itself."""
    if isinstance(error, RefusedError) and error.code == ServerError.ProducerBusy:
        return True  # an attempt that was lost still has its connection
    if isinstance(error, NotFound):
        return False
    return not isinstance(error, MagnetarError) or error.retriable
