"""One input of an instance: its consumer, and where in their topics its messages are."""

from collections.abc import Callable, Sequence

from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import Attachment, ConsumerSettings
from engine.client.consuming.incoming import Batch, Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.raw_consumer import FAILOVER, FROM_EARLIEST, FROM_LATEST, KEY_SHARED, SHARED
from engine.functions.instance.instance_plan import InputPlan, InstancePlan, ProcessingGuarantee
from engine.functions.instance.user.value_codecs import Codec

QUEUE_MESSAGES = 1000
AT_MOST_ONCE_QUEUE = 200
"""Messages that at-most-once processing may lose when the instance is killed."""
REFUSED_KEPT = 10_000
"""Refused entries whose other messages are known to be processed."""


class FeedConsumer(TopicConsumer):
    """A consumer that reports when an attachment starts over or is not the active one any more."""

    on_lost: Callable[[Attachment], None] = staticmethod(lambda attachment: None)

    def detached(self, attachment: Attachment) -> None:
        super().detached(attachment)
        self.on_lost(attachment)

    def activity_changed(self, attachment: Attachment, is_active: bool) -> None:
        if not is_active:
            # The consumer that is active now receives all that is queued here, so it would be processed twice.
            self.detached(attachment)
            attachment.refill()


class InputFeed:
    """An input. ``on_messages`` gets what is to be processed; call ``refill`` with what was."""

    def __init__(
        self,
        plan: InputPlan,
        codec: Codec,
        queue_size: int,
        on_messages: Callable[["InputFeed", Sequence[Incoming]], None],
    ) -> None:
        self.plan = plan
        self.codec = codec
        self.owed = 0
        """Messages that may be permitted once there is room for their results."""
        self._queue_size = queue_size
        self._on_messages = on_messages
        self._consumer: FeedConsumer | None = None
        self._refused: dict[tuple[Attachment, tuple[int, int]], Batch] = {}

    @property
    def consumer(self) -> FeedConsumer:
        assert self._consumer is not None
        return self._consumer

    async def open(
        self,
        client: PulsarClient,
        settings: ConsumerSettings,
        on_end: Callable[[MagnetarError], None],
    ) -> None:
        """Attach. Nothing is received before ``refill``. Raises MagnetarError."""
        self._consumer = await FeedConsumer.open(
            client,
            [self.plan.topic],
            settings,
            on_messages=self._receive,
            on_end=on_end,
            pattern=self.plan.pattern,
        )

    def begin(self) -> None:
        """Receive messages from now on."""
        self.consumer.allow(self._queue_size)

    def hold(self) -> None:
        """Receive nothing any more."""
        if self._consumer is not None:
            self._consumer.hold()

    async def close(self) -> None:
        """Leave the topics after sending acknowledgements."""
        if self._consumer is not None:
            await self._consumer.close()

    def _receive(self, messages: Sequence[Incoming]) -> None:
        if self._refused:
            messages = self._unprocessed(messages)
        if messages:
            self._on_messages(self, messages)

    def _unprocessed(self, messages: Sequence[Incoming]) -> list[Incoming]:
        """Acknowledge what was processed before another message of its batch was refused; return the others."""
        left: list[Incoming] = []
        for message in messages:
            before = self._refused.get((message.source, message.position))
            if before is None or before.left >> message.batch_index & 1:
                left.append(message)
                continue
            self.consumer.acknowledge(message)
            self.consumer.allow(1)
        return left

    def acknowledge(self, message: Incoming) -> None:
        """Acknowledge a processed message."""
        self.consumer.acknowledge(message)
        if self._refused and (message.batch is None or not message.batch.left):
            self._refused.pop((message.source, message.position), None)

    def refuse(self, message: Incoming) -> None:
        """Have a message redelivered later. Other messages of its batch are not processed again here."""
        self.consumer.refuse(message)
        if message.batch is not None:
            if len(self._refused) >= REFUSED_KEPT:
                self._refused.clear()
            known = self._refused.get((message.source, message.position))
            if known is None or known is message.batch:
                self._refused[message.source, message.position] = message.batch
            else:  # of a redelivery: what was processed in either is processed
                message.batch.left &= known.left
                self._refused[message.source, message.position] = message.batch


def consumer_settings(plan: InstancePlan, queue_size: int) -> ConsumerSettings:
    """Return the settings of the consumers of an instance's inputs."""
    kind = SHARED
    if (
        plan.retain_ordering
        or plan.failover
        or plan.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE
    ):
        kind = FAILOVER
    elif plan.retain_key_ordering or plan.key_shared:
        kind = KEY_SHARED
    return ConsumerSettings(
        plan.subscription or plan.full_name,
        kind,
        initial=FROM_EARLIEST if plan.from_earliest else FROM_LATEST,
        queue_size=queue_size,
        ack_timeout_s=plan.timeout_ms / 1000,
        nack_delay_s=plan.nack_delay_ms / 1000,
        metadata={
            "application": f"pulsar-{plan.component}",
            "id": plan.full_name,
            "instance_id": str(plan.instance),
        },
    )


def queue_size(plan: InstancePlan, spec: InputPlan) -> int:
    """Return how many messages of an input wait here at most."""
    size = spec.queue_size or QUEUE_MESSAGES
    if plan.guarantee is ProcessingGuarantee.AT_MOST_ONCE:
        size = min(size, AT_MOST_ONCE_QUEUE)
    return size


def by_attachment(messages: Sequence[Incoming]) -> list[tuple[Attachment, list[Incoming]]]:
    """Return the messages of each attachment, in their order."""
    runs: dict[Attachment, list[Incoming]] = {}
    for message in messages:
        runs.setdefault(message.source, []).append(message)
    return list(runs.items())


async def acknowledged(attachment: Attachment, run: Sequence[Incoming]) -> bool:
    """Return True once the broker has noted that messages of this attachment are acknowledged; False without a
    connection. Raises MagnetarError and ConnectionError."""
    if attachment.raw is None:
        return False
    entries = (entry for message in run for entry in message.chunks or (message.position,))
    await attachment.raw.acknowledged(list(dict.fromkeys(entries)))
    return True
