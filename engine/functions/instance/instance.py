"""One instance of a function: its inputs, the thread of the user's code, its results and acknowledgements."""

import asyncio
import base64
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.names import TopicName, split_partition
from engine.base.tasks import contained, restarting
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import Attachment
from engine.client.consuming.incoming import Incoming
from engine.client.message_ids import MessageId
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import BatchSettings, ProducerSettings, SendResult
from engine.functions.instance.failed_messages import dead_letter
from engine.functions.instance.feed import (
    InputFeed,
    acknowledged,
    by_attachment,
    consumer_settings,
    queue_size,
)
from engine.functions.instance.figures import InstanceFigures
from engine.functions.instance.instance_plan import InstancePlan, ProcessingGuarantee
from engine.functions.instance.lanes import PartitionLanes, sequence_of
from engine.functions.instance.log_output import LogOutput
from engine.functions.instance.result_publishing import SETTINGS, InstancePublisher
from engine.functions.instance.state.function_registers import FunctionRegisters
from engine.functions.instance.state.slice_log import SliceLog
from engine.functions.instance.user.bridge import Bridge
from engine.functions.instance.user.function_context import Callback, FunctionContext, StateAccess
from engine.functions.instance.user.official import OfficialClient
from engine.functions.instance.user.processing import (
    MessageRun,
    PartitionTenure,
    ProcessingFailure,
    UserThread,
    WorkSlice,
)
from engine.functions.instance.user.secret_providers import provider_of
from engine.functions.instance.user.user_code import as_call, code_first
from engine.functions.instance.user.value_codecs import Codec, codec_of, input_codec, output_codec
from engine.wire import pulsar_pb2 as pb

log = logging.getLogger(__name__)

COMPRESSIONS = {"NONE": 0, "LZ4": 1, "ZLIB": 2, "ZSTD": 3, "SNAPPY": 4}
Token = tuple[WorkSlice, Incoming | None, Callback | None]


class InstanceEnded(MagnetarError):
    """The instance cannot continue; the text is for the function's owner."""


class FunctionInstance:
    """One instance of a function. ``start`` it, and ``stop`` it; ``on_end`` is called once with what ended it
    otherwise.

    Everything but the user's code runs on the event loop that made it.
    """

    def __init__(
        self,
        plan: InstancePlan,
        client: PulsarClient,
        clock: Clock,
        figures: InstanceFigures,
        on_end: Callable[[BaseException], None],
    ) -> None:
        self.plan = plan
        self.figures = figures
        self.running = False
        self._client = client
        self._clock = clock
        self._on_end = on_end
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._bridge = Bridge(self._end)
        self._official = OfficialClient(plan)
        self._feeds: list[InputFeed] = []
        self._feed_of: dict[Attachment, InputFeed] = {}
        self._thread: UserThread | None = None
        self._context: FunctionContext | None = None
        self._output = codec_of("", "", {})
        self._publisher = InstancePublisher(client, self._stored, self._refill_all)
        self._lanes: PartitionLanes | None = None
        self._state = FunctionRegisters(plan, client, self._loop, self._bridge)
        self._slices = SliceLog(self._state, self._logged_slice, self._end)
        self._state.on_failed = self._end
        self._given: dict[tuple[str, int, int, int, int], Incoming] = {}
        """Messages that the user's code has to acknowledge."""
        self._to_ack_first: asyncio.Queue[tuple[InputFeed, Sequence[Incoming]]] = asyncio.Queue()
        self._callbacks = ThreadPoolExecutor(1, "callbacks")
        self._log_output: LogOutput | None = None
        self._log_publisher: InstancePublisher | None = None
        self._idle = asyncio.Event()

    @property
    def _manual(self) -> bool:
        return self.plan.guarantee is ProcessingGuarantee.MANUAL

    # --- start and stop --------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the user's code and attach to the topics. Raises what the user's code raises, and MagnetarError."""
        plan = self.plan
        call, codecs = await asyncio.to_thread(self._load)
        settings = self._producer_settings()
        if plan.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE:
            self._refuse_unordered()
            self._lanes = PartitionLanes(
                self._client,
                plan.full_name,
                plan.output.topic,
                settings,
                self._publisher.budget,
                self._give_new,
                self._stored,
                self._end,
                self._begin_partition,
                self._slices.leave,
            )
        elif plan.output.topic:
            await self._publisher.open(plan.output.topic, settings)
        if plan.log_topic:
            self._log_publisher = InstancePublisher(
                self._client,
                self._logged,
                lambda: None,
                replace(SETTINGS, batching=BatchSettings(delay_s=0.1), send_timeout_s=30.0),
            )
            self._log_output = LogOutput(lambda line: self._bridge.post(self._send_log, line))
            logging.getLogger().addHandler(self._log_output)
        assert self._context is not None
        self._thread = UserThread(
            plan,
            call,
            self._context,
            self._output,
            self._clock,
            self._hand_back,
            self._thread_ended,
        )
        self._thread.start()
        if plan.guarantee is ProcessingGuarantee.AT_MOST_ONCE:
            name = "acknowledge first"
            self._client.spawn(name, restarting(name, self._acknowledge_first))
        for spec, codec in zip(plan.inputs, codecs, strict=True):
            size = queue_size(plan, spec)
            feed = InputFeed(spec, codec, size, self._receive)
            self._feeds.append(feed)
            await feed.open(self._client, consumer_settings(plan, size), self._end)
            feed.consumer.on_lost = self._lost
            if plan.skip_to_latest:
                await feed.consumer.seek(position=Position((1 << 63) - 1, (1 << 63) - 1))
        self.running = True
        for feed in self._feeds:
            feed.begin()

    def _load(self) -> tuple[Any, list[Codec]]:
        plan = self.plan
        secrets = provider_of(plan.secrets_provider, plan.secrets_settings)
        logger = logging.getLogger(plan.name)
        self._context = FunctionContext(plan, self, self._clock, secrets, logger)
        with code_first(plan.code):
            if plan.output.topic:
                self._output = output_codec(plan.output)
            return as_call(plan.class_name), [input_codec(plan, spec) for spec in plan.inputs]

    def _refuse_unordered(self) -> None:
        """Raise InstanceEnded for a plan that cannot be processed effectively once."""
        plan = self.plan
        topics = [spec.topic for spec in plan.inputs] + [plan.output.topic]
        if any(topic.startswith("non-persistent:") for topic in topics):
            raise InstanceEnded("effectively-once processing needs persistent topics")
        if plan.window is not None or plan.retain_key_ordering or plan.key_shared:
            raise InstanceEnded(
                "effectively-once processing needs one order of each partition: no windows, no key order"
            )

    def _producer_settings(self) -> ProducerSettings:
        output = self.plan.output
        batching = None
        if output.batching:
            delay_s = (output.batch_delay_ms or 0) / 1000
            batching = BatchSettings(output.batch_messages_max, delay_s=delay_s)
        return replace(
            SETTINGS,
            batching=batching,
            compression=COMPRESSIONS[output.compression],
            schema=self._output.schema,
        )

    async def stop(self, grace_s: float) -> None:
        """Finish the present message, store and acknowledge what is done, within ``grace_s``, and leave."""
        self.running = False
        until = self._loop.time() + grace_s
        for feed in self._feeds:
            feed.hold()
        if self._thread is not None:
            self._thread.stop()
            if not await asyncio.to_thread(self._thread.join, grace_s):
                log.warning("the function did not return in %g s", grace_s)
        await asyncio.sleep(0)  # what the thread handed back last
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._slices.settled()
                while self._publisher.budget.items:
                    self._idle.clear()
                    await self._idle.wait()
                await self._state.flushed()
        with contained("leaving the topics"):
            for feed in self._feeds:
                await feed.close()
            if self._lanes is not None:
                await self._lanes.close()
            await self._publisher.close()
            await self._state.close()
            await self._close_log()
        self._callbacks.shutdown(wait=False)
        with contained("closing the official client"):
            await asyncio.to_thread(self._official.close)

    async def _close_log(self) -> None:
        if self._log_output is not None and self._log_publisher is not None:
            logging.getLogger().removeHandler(self._log_output)
            await self._log_publisher.close()

    def _end(self, error: BaseException) -> None:
        """Report what ended this instance, once."""
        if not self._ended:
            self._ended, self.running = True, False
            for feed in self._feeds:
                feed.hold()
            self._on_end(error)

    def _thread_ended(self, error: BaseException) -> None:
        self._bridge.post(self._end, error)

    # --- messages in -----------------------------------------------------------------------------

    def _receive(self, feed: InputFeed, messages: Sequence[Incoming]) -> None:
        self.figures.received(len(messages), self._clock.wall_ms())
        first = messages[0].source
        self._feed_of[first] = feed
        if self._manual:
            for message in messages:
                self._feed_of[message.source] = feed
                self._given[_key_of(message)] = message
        if self.plan.guarantee is ProcessingGuarantee.AT_MOST_ONCE:
            self._to_ack_first.put_nowait((feed, messages))
            return
        if len(feed.consumer.attachments) == 1:
            self._give(MessageRun(feed.codec, messages), first)
            return
        for attachment, run in by_attachment(messages):
            self._feed_of[attachment] = feed
            self._give(MessageRun(feed.codec, run), attachment)

    def _give(self, run: MessageRun, attachment: Attachment | None = None) -> None:
        assert self._thread is not None
        if self._lanes is not None and attachment is not None:
            self._lanes.receive(attachment, run)
        else:
            self._thread.give(run)

    async def _begin_partition(self, partition: str, tenure: PartitionTenure) -> None:
        """Learn which inputs of a partition are logged with the state, if it was ever used. Raises MagnetarError."""
        await self._slices.settled(partition)
        tenure.claimed = await self._state.claimed(partition)
        tenure.logged = self._state.logged(partition).last

    def _give_new(self, run: MessageRun) -> None:
        """Have inputs of a lane processed that were not; those that are logged are only finished (F9)."""
        assert self._thread is not None
        tenure, messages = run.tenure, run.messages
        assert tenure is not None
        try:
            if sequence_of(messages[0]) <= tenure.logged:
                known = [message for message in messages if sequence_of(message) <= tenure.logged]
                self._finish_logged(tenure, known)
                run = run._replace(messages=messages[len(known) :])
        except MagnetarError as error:
            self._end(error)
            return
        if run.messages:
            self._thread.give(run)

    def _finish_logged(self, tenure: PartitionTenure, messages: Sequence[Incoming]) -> None:
        """Publish the logged results of inputs again, where they may not be stored, and acknowledge the inputs."""
        part = WorkSlice(tenure)
        part.source = messages[0].source
        results = self._state.logged(part.source.topic).results
        # Not from here: what it lets in at once would overtake the runs that wait for their lane.
        self._loop.call_soon(self._refill, self._feed_of[part.source], len(messages))
        part.done = list(messages)
        for message in messages:
            data = results.get(sequence_of(message))
            if data is not None:
                part.results.append((message, data))
        self._slices.begun_again(part)
        self._logged_slice(part)

    async def _acknowledge_first(self) -> None:
        """Process messages after the broker has noted that they are acknowledged; others are not processed."""
        while True:
            feed, messages = await self._to_ack_first.get()
            for attachment, run in by_attachment(messages):
                try:
                    is_noted = await acknowledged(attachment, run)
                except (MagnetarError, ConnectionError):
                    is_noted = False
                if is_noted:
                    self._give(MessageRun(feed.codec, run))
                else:
                    # They are redelivered, or lost: that is the promise.
                    self._refill(feed, len(run))

    def _lost(self, attachment: Attachment) -> None:
        """Forget what will be redelivered."""
        if self._lanes is not None and (dropped := self._lanes.lost(attachment)):
            self._refill(self._feed_of[attachment], dropped)
        if self._manual:
            self._given = {
                key: message
                for key, message in self._given.items()
                if message.source is not attachment
            }

    def _refill(self, feed: InputFeed, count: int) -> None:
        if self._publisher.full:
            feed.owed += count
        else:
            feed.consumer.allow(count)

    def _refill_all(self) -> None:
        for feed in self._feeds:
            owed, feed.owed = feed.owed, 0
            if owed:
                feed.consumer.allow(owed)

    # --- results ---------------------------------------------------------------------------------

    def _hand_back(self, part: WorkSlice) -> None:
        self._bridge.post(self._take, part)

    def _take(self, part: WorkSlice) -> None:
        """Publish the results of a slice, and acknowledge it when they are stored."""
        now_ms = self._clock.wall_ms()
        if part.latencies_s:
            self.figures.processed(part.latencies_s, now_ms)
        for failure in part.failures:
            self._failed(failure, now_ms)
        if self._lanes is not None and not self._ended:
            if self._state.ready:
                # Also of a lost partition: what the code did later may depend on it.
                part.pending += 1
                self._slices.add(part)
                part.pending -= 1
                self._slices.pump()
                return
            if part.tenure is not None:
                self._slices.begun_unlogged(part)
        if part.taken:
            self._refill(self._feed_of[part.source], part.taken)
        if self._ended or (part.tenure is not None and part.tenure.over):
            return
        if part.changes:
            part.pending += 1
            self._state.send(part.changes, lambda error: self._changed(part, error))
        if part.results:
            self._publish_results(part)
        for message in part.late:
            self._late(part, message)
        part.pending -= 1
        if not part.pending:
            self._complete(part)

    def _logged_slice(self, part: WorkSlice) -> None:
        """Publish the results of a slice that was logged."""
        if part.taken:
            self._refill(self._feed_of[part.source], part.taken)
        if self._ended or (part.tenure is not None and part.tenure.over):
            return
        if part.results:
            self._publish_results(part)
        part.pending -= 1
        if not part.pending:
            self._complete(part)

    def _publish_results(self, part: WorkSlice) -> None:
        output, results = self.plan.output, part.results
        if not output.topic:
            return
        part.pending += len(results)
        messages = [self._result(part, message, data) for message, data in results]
        if self._lanes is None:
            self._publisher.send(output.topic, COMPRESSIONS[output.compression], messages)
            return
        assert part.tenure is not None
        try:
            sequences = [sequence_of(message) for message, _ in results]
        except MagnetarError as error:
            self._end(error)
            return
        self._lanes.send(part.tenure, list(zip(sequences, messages, strict=True)))

    def _result(self, part: WorkSlice, message: Incoming, data: bytes) -> OutgoingMessage:
        serialized = message.id_bytes.removesuffix(b"\x30\x00")
        properties = {
            "__pfn_input_topic__": message.source.topic,
            "__pfn_input_msg_id__": base64.urlsafe_b64encode(serialized).decode(),
        }
        if self.plan.output.forward_properties and message.own.properties:
            properties = message.properties | properties
        return OutgoingMessage(data, (part, message, None), properties=properties)

    def _stored(self, results: Sequence[SendResult]) -> None:
        for token, message_id, error in results:
            part, message, callback = token
            if error is not None:
                self._not_stored(part, message, error)
            if callback is not None and self._thread is not None:
                self._thread.add_room()
                if callback is not _nothing:
                    self._callbacks.submit(_report, callback, message_id, error)
            part.pending -= 1
            if not part.pending:
                self._complete(part)
            elif part.pending == 1:
                self._slices.pump()
        if not self._publisher.budget.items:
            self._idle.set()

    def _not_stored(self, part: WorkSlice, message: Incoming | None, error: MagnetarError) -> None:
        self.figures.trouble("system", f"{type(error).__name__}: {error}", self._clock.wall_ms())
        if self._lanes is not None:
            self._end(error)
        elif message is not None:
            part.refused.add(message)

    def _changed(self, part: WorkSlice, error: MagnetarError | None) -> None:
        if error is not None:
            self.figures.trouble("system", f"state: {error}", self._clock.wall_ms())
            part.refused.update(part.done)
        part.pending -= 1
        if not part.pending:
            self._complete(part)

    def _complete(self, part: WorkSlice) -> None:
        """Acknowledge the messages of a slice, except those whose effects are not stored."""
        if self._lanes is not None:
            self._slices.completed(part)
        if part.tenure is not None and part.tenure.over:
            return
        if self.plan.guarantee is ProcessingGuarantee.AT_MOST_ONCE or self._manual:
            return
        feed_of = self._feed_of
        for message in part.done:
            feed = feed_of[message.source]
            if message in part.refused:
                feed.refuse(message)
            else:
                feed.acknowledge(message)

    # --- failures --------------------------------------------------------------------------------

    def _failed(self, failure: ProcessingFailure, now_ms: int) -> None:
        self.figures.trouble(failure.kind, failure.text, now_ms)
        if self._lanes is not None:
            self._end(InstanceEnded(failure.text))
            return
        if failure.retried or self.plan.guarantee is ProcessingGuarantee.AT_MOST_ONCE:
            return
        for message in failure.messages:
            if failure.given_up:
                self._dead_letter(message, failure.text)
            else:
                self._given.pop(_key_of(message), None)
                self._feed_of[message.source].refuse(message)

    def _dead_letter(self, message: Incoming, text: str) -> None:
        """Publish a message to the dead letter topic and acknowledge it when it is stored there."""
        part = WorkSlice(None)
        part.done.append(message)
        topic, letter = dead_letter(self.plan, message, text, (part, message, None))
        self._publisher.send(topic, 0, [letter])

    def _late(self, part: WorkSlice, message: Incoming) -> None:
        """Publish a message that is too late for its windows, where there is a topic for such; it is acknowledged when
        it is stored there."""
        topic = self.plan.window.late_topic if self.plan.window is not None else ""
        if not topic:
            log.info("too late for its window: %s at %s", message.topic, message.position)
            return
        part.pending += 1
        letter = OutgoingMessage(
            message.content or b"",
            (part, message, None),
            key=message.key,
            properties=message.properties,
            event_ms=message.event_ms,
        )
        self._publisher.send(topic, 0, [letter])

    # --- what the user's code asks, from its thread ----------------------------------------------

    def publish(
        self, topic: str, message: OutgoingMessage, compression: int, callback: Callback | None
    ) -> None:
        thread, context = self._thread, self._context
        assert thread is not None
        assert context is not None
        part = thread.slice
        message.token = (part, context.message, callback or _nothing)
        thread.wait_for_room()
        self._bridge.post(self._publish, part, topic, message, compression)

    def _publish(
        self, part: WorkSlice, topic: str, message: OutgoingMessage, compression: int
    ) -> None:
        part.pending += 1
        self._publisher.send(topic, compression, [message])

    def acknowledge(self, topic: str, message_id: tuple[int, int, int, int]) -> None:
        self._bridge.post(self._acknowledge, topic, message_id)

    def _acknowledge(self, topic: str, message_id: tuple[int, int, int, int]) -> None:
        message = self._given.pop((topic, *message_id), None)
        if message is None:
            if self._manual:
                text = f"ack: {topic} {message_id} was not given to this instance, or before"
                self.figures.trouble("system", text, self._clock.wall_ms())
            return
        self._feed_of[message.source].acknowledge(message)

    def record(self, metric: str, value: float) -> None:
        self._bridge.post(self.figures.user_metric, metric, value)

    def state(self) -> StateAccess:
        assert self._thread is not None
        return self._state.access(self._thread.slice)

    def pulsar_client(self) -> Any:
        return self._official.get()

    # --- questions -------------------------------------------------------------------------------

    async def trigger(self, topic: str, data: bytes) -> bytes | None:
        """Run the function on ``data`` as a message of ``topic`` and return the output's bytes; None without one.

        Raises InstanceEnded with the exception of the user's code.
        """
        name = topic and str(TopicName.parse(topic))
        feeds = [feed for feed in self._feeds if not name or feed.plan.topic == name]
        if not feeds or self._thread is None or self.plan.window is not None:
            raise InstanceEnded("Function in trigger function has unidentified topic")
        answer: asyncio.Future[bytes | None] = self._loop.create_future()
        message = _unpublished(feeds[0].plan.topic, data)
        thread, codec, output = self._thread, feeds[0].codec, self._output

        def run() -> None:
            assert self._context is not None
            self._context.message = message
            thread.slice = WorkSlice(None)
            result: bytes | None = None
            error: InstanceEnded | None = None
            try:
                value = thread.call(codec.decode(data), self._context)
                result = None if value is None else output.encode(value)
            except Exception:
                error = InstanceEnded(traceback.format_exc())
            self._bridge.post(_answer, answer, result, error)
            self._hand_back(thread.slice)

        thread.between(run)
        return await answer

    async def state_get(self, key: str) -> Mapping[str, Any] | None:
        return await self._state.read(key)

    async def state_put(self, key: str, value: bytes | None, number: int | None) -> None:
        await self._state.write(key, value, number)

    # --- log topic -------------------------------------------------------------------------------

    def _send_log(self, line: str) -> None:
        if self._log_publisher is not None:
            message = OutgoingMessage(line.encode(errors="replace"))
            self._log_publisher.send(self.plan.log_topic, COMPRESSIONS["LZ4"], [message])

    def _logged(self, results: Sequence[SendResult]) -> None:
        assert self._log_output is not None
        self._log_output.sent(len(results))
        for result in results:
            if result.error is not None:
                text = f"log topic: {result.error}"
                self.figures.trouble("system", text, self._clock.wall_ms())
                break


def _key_of(message: Incoming) -> tuple[str, int, int, int, int]:
    """Return what names a message in ``Context.ack``: topic, partition, ledger, entry, index in its batch."""
    source, (ledger, entry) = message.source, message.position
    topic = split_partition(source.topic)[0] or source.topic
    return topic, source.partition, ledger, entry, message.batch_index


def _nothing(result: Any, message_id: Any) -> None:
    """Stand for the callback of a publication without one."""


class _Nowhere:
    """The source of a message that was published nowhere."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.partition = -1

    def plain_id(self, position: Position) -> bytes:
        return MessageId(position).serialized()


def _unpublished(topic: str, data: bytes) -> Incoming:
    metadata = pb.MessageMetadata()
    return Incoming(_Nowhere(topic), Position(0, 0), 0, metadata, metadata, data)


def _answer(
    answer: "asyncio.Future[bytes | None]", result: bytes | None, error: MagnetarError | None
) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _report(callback: Callback, message_id: MessageId | None, error: MagnetarError | None) -> None:
    """Call the user's callback as the official client does."""
    # Slow to import: most publications have no callback.
    from pulsar import MessageId as OfficialId
    from pulsar import Result

    with contained("the callback of a publication"):
        if error is not None or message_id is None:
            callback(Result.UnknownError, None)
            return
        ledger, entry = message_id.position
        callback(Result.Ok, OfficialId(message_id.partition, ledger, entry, message_id.batch_index))
