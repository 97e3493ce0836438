"""The state as an instance uses it: opened at the first use, followed from its topic, written through it."""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.client import PulsarClient
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_reader import TopicReader
from engine.client.message_ids import EARLIEST_ID
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    BatchSettings,
    PartitionProducer,
    ProducerSettings,
    SendResult,
)
from engine.client.raw_consumer import FAILOVER, FROM_EARLIEST, RawConsumer
from engine.functions.instance.instance_plan import InstancePlan, ProcessingGuarantee
from engine.functions.instance.result_publishing import finish, not_busy
from engine.functions.instance.state.registers import (
    BASE,
    COUNT,
    VALUE,
    Born,
    LocalStore,
    register_name,
)
from engine.functions.instance.user.bridge import Bridge
from engine.functions.instance.user.processing import WorkSlice

log = logging.getLogger(__name__)

OPEN_S = 60.0
"""Seconds that the user's code waits until the state was read."""
VALUE_BYTES_MAX = 1024 * 1024
RETAINED_AS = "__function_state"
"""The subscription that keeps the topic's messages until a copy of the registers follows them."""
COPY_AFTER = 10_000
"""Messages since the last copy of all registers, at least, before another."""
COPY_RATIO = 4
"""Messages for each register before another copy."""
FOLLOW_AHEAD = 1000
REGISTER = re.compile(r"(76|63|62)([0-9a-f]{2})+")
"""Names of registers in hexadecimal."""
Stored = Callable[[MagnetarError | None], None]


class StateError(MagnetarError):
    """The state cannot be read or written now."""


class SliceState:
    """The state for the code that processes one slice of messages. Its changes are stored with the slice."""

    def __init__(self, state: "FunctionRegisters", part: WorkSlice) -> None:
        self._state = state
        self._part = part

    def get(self, key: str) -> bytes | None:
        return self._state.value(register_name(VALUE, key))

    def put(self, key: str, value: bytes) -> None:
        if len(value) > VALUE_BYTES_MAX:
            raise StateError(f"state value: {len(value)} bytes, more than {VALUE_BYTES_MAX}")
        self._state.change(self._part.changes, register_name(VALUE, key), value)

    def delete(self, key: str) -> None:
        self._state.change(self._part.changes, register_name(VALUE, key), None)

    def counter(self, key: str) -> int:
        return self._state.counted(key)

    def increment(self, key: str, amount: int) -> None:
        self._state.count(self._part.changes, key, int(amount))

    def delete_counter(self, key: str) -> None:
        self._state.set_counter(self._part.changes, key, 0)


class FunctionRegisters:
    """The state of a function on one instance."""

    def __init__(
        self,
        plan: InstancePlan,
        client: PulsarClient,
        loop: asyncio.AbstractEventLoop,
        bridge: Bridge,
    ) -> None:
        self._plan = plan
        self._client = client
        self._loop = loop
        self._bridge = bridge
        self._topic = plan.state_topic
        self._writer = str(plan.instance)
        self._session = client.entropy.hex(8)
        self._lock = threading.Lock()
        self._store: LocalStore | None = None
        self._ahead: dict[bytes, list[Any]] = {}
        """Own changes that were not read back yet: the last value and their number, by register."""
        self._opening: asyncio.Task[None] | None = None
        self._ready = False
        self._failed: MagnetarError | None = None
        self._producer: PartitionProducer | None = None
        self._reader: TopicReader | None = None
        self._retaining: RawConsumer | None = None
        self._moved = asyncio.Event()
        self._pending = 0
        self._idle = asyncio.Event()
        self._since_copy = 0
        self._copying = False
        self._followed = Position(-1, -1)

    # --- opening ---------------------------------------------------------------------------------

    def access(self, part: WorkSlice) -> SliceState:
        """Return the state for a slice, opened. From the user's thread. Raises StateError."""
        if not self._ready:
            if self._plan.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE:
                raise StateError("state cannot be used with effectively-once processing")
            opening = asyncio.run_coroutine_threadsafe(self._opened(), self._loop)
            try:
                opening.result(OPEN_S)
            except (TimeoutError, MagnetarError) as error:
                raise StateError(f"{self._topic} cannot be read: {error}") from error
        return SliceState(self, part)

    async def _opened(self) -> None:
        """Wait until the state is open; begin that at the first call. Raises MagnetarError."""
        if self._ready:
            return
        if self._opening is None or self._opening.done():
            self._opening = self._client.spawn(f"state {self._topic}", self._open())
        await asyncio.shield(self._opening)
        if self._failed is not None:
            raise self._failed

    async def _open(self) -> None:
        self._failed = None
        try:
            await self._retain()
            producer = PartitionProducer(
                self._client,
                self._topic,
                ProducerSettings(
                    name=f"{self._plan.full_name}-state-{self._writer}",
                    send_timeout_s=0.0,
                    batching=BatchSettings(delay_s=0.0),
                ),
                Budget(1 << 40),
                self._answered,
            )
            # An instance that was replaced may have the name still.
            await self._client.patiently(
                producer.open, timeout_s=self._client.operation_timeout_s, is_final=not_busy
            )
            if self._store is None:
                self._store = LocalStore(Path(self._plan.folder) / "state")
            self._reader = await TopicReader.open_at(
                self._client, self._topic, EARLIEST_ID, on_messages=self._follow
            )
            self._reader.allow(FOLLOW_AHEAD)
            while await self._reader.has_message_available():
                await self._moved.wait()
                self._moved.clear()
        except MagnetarError as error:
            self._failed = error
            return
        self._producer, self._ready = producer, True

    async def _retain(self) -> None:
        """Attach to the subscription that keeps the topic's messages."""
        link = await self._client.owner(self._topic)
        self._retaining = await RawConsumer.open(
            link,
            self._topic,
            RETAINED_AS,
            FAILOVER,
            on_messages=lambda messages: None,
            name=self._writer.zfill(6),
            initial=FROM_EARLIEST,
        )

    # --- following -------------------------------------------------------------------------------

    def _follow(self, messages: Sequence[Incoming]) -> None:
        assert self._reader is not None
        assert self._store is not None
        with self._lock:
            for message in messages:
                self._apply(message, message.properties)
        self._since_copy += len(messages)
        self._followed = messages[-1].position
        self._reader.allow(len(messages))
        self._moved.set()
        due = max(COPY_AFTER, COPY_RATIO * self._store.live)
        if (
            self._plan.instance == 0
            and self._ready
            and self._since_copy > due
            and not self._copying
        ):
            self._copying = True
            self._client.spawn("copy the state", self._copy())

    def _apply(self, message: Incoming, properties: Mapping[str, str]) -> None:
        assert self._store is not None
        if not REGISTER.fullmatch(properties.get("register", "")):
            log.warning("no change of the state: %s at %s", self._topic, message.position)
            return
        name = bytes.fromhex(properties["register"])
        ledger, entry = message.position
        born, version = Born(ledger, entry, max(message.batch_index, 0)), None
        if "born" in properties:
            born = Born(*map(int, properties["born"].split(":")))
            version = int(properties["version"])
        deleted = properties.get("deleted") == "true"
        self._store.apply(name, None if deleted else message.content or b"", born, version)
        if properties.get("session") == self._session and "born" not in properties:
            ahead = self._ahead.get(name)
            if ahead is not None:
                ahead[1] -= 1
                if not ahead[1]:
                    del self._ahead[name]

    async def _copy(self) -> None:
        """Publish all registers again, then let go of everything before the copy."""
        assert self._store is not None
        assert self._retaining is not None
        behind, self._since_copy = self._followed, 0
        try:
            with self._lock:
                registers = list(self._store.items())
            done: asyncio.Future[None] = self._loop.create_future()
            messages = [self._message(name, register.value) for name, register in registers]
            for message, (_, register) in zip(messages, registers, strict=True):
                assert message.properties is not None
                born = ":".join(map(str, register.born))
                message.properties = {
                    **message.properties,
                    "born": born,
                    "version": str(register.version),
                }
            self._publish(messages, lambda error: finish(done, error))
            await done
            if self._retaining.error is not None:
                await self._retain()
            self._retaining.acknowledge([behind], cumulative=True)
        except MagnetarError as error:
            log.warning("%s is not copied: %s", self._topic, error)
        finally:
            self._copying = False

    # --- reading and changing, from any thread ---------------------------------------------------

    def value(self, name: bytes) -> bytes | None:
        """Return a register's value with this instance's own changes."""
        with self._lock:
            return self._value(name)

    def _value(self, name: bytes) -> bytes | None:
        ahead = self._ahead.get(name)
        if ahead is not None:
            known: bytes | None = ahead[0]
            return known
        assert self._store is not None
        register = self._store.get(name)
        return None if register is None else register.value

    def counted(self, key: str) -> int:
        """Return a counter with this instance's own changes; 0 without one."""
        with self._lock:
            return self._counted(key)

    def _counted(self, key: str) -> int:
        assert self._store is not None
        total = self._store.total(key) or 0
        for name in (register_name(COUNT, key, self._writer), register_name(BASE, key)):
            if name in self._ahead:
                register = self._store.get(name)
                before = 0 if register is None or register.value is None else int(register.value)
                total += int(self._value(name) or b"0") - before
        return total

    def change(self, changes: dict[bytes, bytes | None], name: bytes, value: bytes | None) -> None:
        """Change a register, seen here at once and stored with ``changes``."""
        with self._lock:
            self._change(changes, name, value)

    def _change(self, changes: dict[bytes, bytes | None], name: bytes, value: bytes | None) -> None:
        ahead = self._ahead.setdefault(name, [None, 0])
        ahead[0] = value
        if name not in changes:
            ahead[1] += 1
        changes[name] = value

    def count(self, changes: dict[bytes, bytes | None], key: str, amount: int) -> None:
        """Add to a counter."""
        name = register_name(COUNT, key, self._writer)
        with self._lock:
            before = int(self._value(name) or b"0")
            self._change(changes, name, b"%d" % (before + amount))

    def set_counter(self, changes: dict[bytes, bytes | None], key: str, number: int) -> None:
        """Give a counter the value ``number``; increments that others make meanwhile are added to it."""
        name = register_name(BASE, key)
        with self._lock:
            base = int(self._value(name) or b"0")
            self._change(changes, name, b"%d" % (base + number - self._counted(key)))

    # --- writing ---------------------------------------------------------------------------------

    def send(self, changes: Mapping[bytes, bytes | None], on_stored: Stored) -> None:
        """Publish changes together and report when they are stored."""
        self._publish([self._message(name, value) for name, value in changes.items()], on_stored)

    def _message(self, name: bytes, value: bytes | None) -> OutgoingMessage:
        properties = {"register": name.hex(), "session": self._session}
        if value is None:
            properties["deleted"] = "true"
        return OutgoingMessage(value or b"", properties=properties)

    def _publish(self, messages: Sequence[OutgoingMessage], on_stored: Stored) -> None:
        assert self._producer is not None
        if not messages:
            on_stored(None)
            return
        for message in messages[:-1]:
            message.token = None
        # Receipts come in order: the last one stands for all.
        messages[-1].token = on_stored
        self._pending += 1
        self._producer.send(messages)

    def _answered(self, results: Sequence[SendResult]) -> None:
        failed = next((result.error for result in results if result.error is not None), None)
        for result in results:
            if result.token is not None:
                self._pending -= 1
                result.token(failed)
        if not self._pending:
            self._idle.set()

    async def flushed(self) -> None:
        """Wait until all changes are stored. Cancel-safe."""
        while self._pending:
            self._idle.clear()
            await self._idle.wait()

    # --- for the worker --------------------------------------------------------------------------

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return a key's value, number and version; None without it. Raises MagnetarError."""
        await self._opened()
        assert self._store is not None
        name = register_name(VALUE, key)
        with self._lock:
            value, register = self._value(name), self._store.get(name)
            number = self._store.total(key)
            if number is not None or register_name(COUNT, key, self._writer) in self._ahead:
                number = self._counted(key)
        if value is None and number is None:
            return None
        return {
            "value": value,
            "number": number,
            "version": register.version if register is not None else 0,
        }

    async def write(self, key: str, value: bytes | None, number: int | None) -> None:
        """Store a key's value or number. Raises MagnetarError."""
        await self._opened()
        changes: dict[bytes, bytes | None] = {}
        if number is not None:
            self.set_counter(changes, key, number)
        else:
            self.change(changes, register_name(VALUE, key), value)
        done: asyncio.Future[None] = self._loop.create_future()
        self.send(changes, lambda error: finish(done, error))
        await done

    async def close(self) -> None:
        """Leave the topic. The local store is left to be removed with its folder."""
        if self._reader is not None:
            await self._reader.close()
        if self._producer is not None:
            await self._producer.close()
        if self._retaining is not None and self._retaining.error is None:
            self._retaining.leave()
        if self._store is not None:
            with self._lock:
                self._store.close()
        self._ready = False
