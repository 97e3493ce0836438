"""A topic or partition as a live tail reads it: from storage page by page, or as brokers send it to a client."""

import asyncio
from abc import ABC, abstractmethod
from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from time import monotonic

from engine.admin.api.arguments import EARLIEST_MESSAGE, MessagePosition, OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID, NEXT_ENTRIES, NextEntries
from engine.base.errors import MagnetarError, NotFound
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.client import PulsarClient, Reassigned, reassigned_by
from engine.client.errors import NoAnswerError
from engine.client.raw_consumer import FROM_LATEST, RawConsumer
from engine.client.raw_reader import messages_in
from engine.wire.errors import RefusedError, ServerError
from engine.wire.events import Delivered
from gateway.services.browsing.opening import BrowsedMessage, open_entry
from gateway.services.engine_link import Engine

ANSWER_S = 5.0
ATTACH_S = 4.0
"""Time to find the owner of a topic and attach a reader there."""
AGAIN_S = 1.0
"""Delay after a failed read."""
PAGE_MESSAGES = 1_000
PAGE_BYTES = 2 << 20
WAITING_BYTES_MAX = 16 << 20
"""Bytes of entries that wait for a reader, beyond which it is closed; it continues where it was once they are read."""
_GONE = (ServerError.TopicNotFound, ServerError.MetadataError)
"""Refusals of a reader of a partition that was never used."""


class TailPart(ABC):
    """A topic or partition. ``ready``: messages that were read and not taken yet; ``more``: more may be stored now.

    ``place``: the position from which it is read next, None before that is known. ``problem``: the reason why it
    cannot be read at present; empty while it is read.
    """

    def __init__(self, name: TopicName) -> None:
        self.name = name
        self.place: MessagePosition | None = None
        self.problem = ""
        self.ready: list[BrowsedMessage] = []
        self.more = False

    async def find_place(self, engine: Engine) -> None:
        """Set the end of the part, from which it is read. A partition that was never used is read from its beginning.

        Raises the errors of the call.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                last = await engine.call(LAST_MESSAGE_ID, OnTopic(self.name))
        except NotFound:
            if self.name.partition < 0:
                raise
            self.place = EARLIEST_MESSAGE
        else:
            self.place = MessagePosition(last["ledgerId"], last["entryId"] + 1)

    async def read(self, engine: Engine) -> None:
        """Read into ``ready``, unless messages wait there. An error becomes ``problem``. Cancel-safe: what was read
        stays in ``ready``, or is read again."""
        if self.ready:
            return
        self.more = False
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._page(engine)
            self.problem = ""
        except NotFound as error:  # partitions are created with their first use
            self.problem = "" if self.name.partition >= 0 else str(error)
        except (MagnetarError, TimeoutError, OSError) as error:
            self.problem = str(error) or "no answer in time"

    @abstractmethod
    async def _page(self, engine: Engine) -> None:
        """Set ``ready``, ``place`` and ``more`` together. Raises the errors of reading."""

    def take(self) -> list[BrowsedMessage]:
        """Remove and return the messages that were read."""
        messages, self.ready = self.ready, []
        return messages

    @abstractmethod
    def close(self) -> None:
        """End the reading. Safe to call twice."""


class StoredPart(TailPart):
    """A part that is read from storage by its owner."""

    async def _page(self, engine: Engine) -> None:
        assert self.place is not None, "set before the first page"
        args = NextEntries(self.name, PAGE_MESSAGES, PAGE_BYTES, self.place)
        answer = await engine.call(NEXT_ENTRIES, args)
        stored = [(ledger, entry, b64decode(text)) for ledger, entry, text in answer["entries"]]
        # In a thread: a page may have thousands of messages, and other requests would wait for the loop.
        opened = await asyncio.to_thread(_opened, stored)
        self.ready, self.more = opened, answer["more"]
        self.place = MessagePosition(*answer["next"])

    def close(self) -> None:
        pass


class Attaching:
    """The attachments of a topic's readers. After a failed one others wait AGAIN_S, and fail by its reason: the parts
    of a topic have the same brokers."""

    def __init__(self, client: PulsarClient) -> None:
        self.client = client
        self._error: MagnetarError | None = None
        self._until_s = 0.0

    async def attach(self, part: "FollowedPart", moved: Reassigned | None) -> RawConsumer:
        """Return a reader that begins at the part's place. Raises NotFound for a partition that does not exist, and
        the errors of the client. Cancel-safe."""
        assert part.place is not None, "set before a reader is attached"
        if self._error is not None and monotonic() < self._until_s:
            raise self._error.with_traceback(None)
        name = str(part.name)
        try:
            async with asyncio.timeout(ATTACH_S):
                link = await self.client.owner(name, moved)
                return await RawConsumer.open(
                    link,
                    name,
                    f"reader-console-{self.client.entropy.below(1 << 40):010x}",
                    on_messages=part.receive,
                    durable=False,
                    start=Position(*part.place.position),
                    initial=FROM_LATEST,
                    create=False,
                )
        except TimeoutError:
            error: MagnetarError = NoAnswerError(f"no broker answers clients of {name} in time")
        except RefusedError as refusal:
            if refusal.code in _GONE and part.name.partition >= 0:
                raise NotFound(f"{name} does not exist yet") from refusal
            error = refusal
        except MagnetarError as failure:
            error = failure
        self._error, self._until_s = error, monotonic() + AGAIN_S
        raise error


class FollowedPart(TailPart):
    """A part whose entries a broker sends to a reader, which has no durable subscription."""

    def __init__(self, name: TopicName, attaching: Attaching) -> None:
        super().__init__(name)
        self._attaching = attaching
        self._waiting: deque[Delivered] = deque()
        self._waiting_bytes = 0
        self._used_permits = 0
        self._consumer: RawConsumer | None = None

    def receive(self, entries: Sequence[Delivered]) -> None:
        """Receive entries from the broker."""
        self._waiting += entries
        self._waiting_bytes += sum(len(delivered.entry) for delivered in entries)
        if self._waiting_bytes > WAITING_BYTES_MAX and self._consumer is not None:
            self._consumer.leave()

    async def _page(self, engine: Engine) -> None:
        consumer = self._consumer
        if not self._waiting and (consumer is None or consumer.error is not None):
            error = None if consumer is None else consumer.error
            moved = (
                None if error is None or consumer is None else reassigned_by(error, consumer.link)
            )
            self._consumer = consumer = await self._attaching.attach(self, moved)
            self._used_permits = 0
            consumer.flow(PAGE_MESSAGES)
        entries: list[Delivered] = []
        size = 0
        for delivered in self._waiting:
            entries.append(delivered)
            size += len(delivered.entry)
            if size >= PAGE_BYTES:
                break
        if not entries:
            return
        stored = [(*delivered.position, delivered.entry) for delivered in entries]
        opened = await asyncio.to_thread(_opened, stored)
        # Together, since a timeout may end the read at each wait.
        for _ in entries:
            self._waiting.popleft()
        self._waiting_bytes -= size
        self.ready, self.more = opened, True
        ledger, entry, _ = stored[-1]
        self.place = MessagePosition(ledger, entry + 1)
        self._permit(messages_in(entries))

    def _permit(self, messages: int) -> None:
        self._used_permits += messages
        if self._used_permits * 2 < PAGE_MESSAGES:
            return
        if self._consumer is not None and self._consumer.error is None:
            self._consumer.flow(self._used_permits)
        self._used_permits = 0

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.leave()


def _opened(stored: Sequence[tuple[int, int, bytes]]) -> list[BrowsedMessage]:
    return [message for entry in stored for message in open_entry(*entry)]
