"""The state as an instance uses it: opened at the first use, followed from its topic, written through it."""

import asyncio
import logging
import re
import shutil
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
from engine.functions.instance.state.logged_inputs import (
    LoggedInputs,
    LoggedPartition,
    LoggedSlice,
    SliceFormatError,
    SliceVerdict,
)
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
from engine.wire import client_commands as say
from engine.wire.errors import RefusedError, ServerError

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
SLICE, INPUTS = "slice", "inputs"
"""Properties of messages that are a slice of inputs, and a copy of which inputs are logged."""
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
        source = self._part.source if self._state.logs_inputs else None
        partition = "" if source is None else source.topic
        self._state.count(self._part.changes, key, int(amount), partition)

    def delete_counter(self, key: str) -> None:
        self._state.set_counter(self._part.changes, key, 0)


class _Progress:
    """Counts what happens, for those who wait for more of it."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def step(self) -> None:
        self.count += 1
        self._event.set()

    async def beyond(self, count: int) -> None:
        """Wait until more than ``count`` has happened. Cancel-safe."""
        while self.count <= count:
            self._event.clear()
            await self._event.wait()


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
        self.logs_inputs = (
            plan.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE and plan.component == "function"
        )
        """True where changes are stored with the inputs and results that they belong to."""
        self.on_failed: Callable[[MagnetarError], None] = lambda error: None
        """Called with what makes it impossible to log inputs."""
        self._unread: dict[int, Callable[[bool], None]] = {}
        """Called when a slice of this instance was read back with whether it counts, by the slice's number."""
        self._number = 0
        self._inputs = LoggedInputs()
        self._writer = str(plan.instance)
        self._counting = {self._writer}
        """Writers whose counts this instance writes: itself and, where inputs are logged, their partitions."""
        self._session = f"{plan.instance}-{client.entropy.hex(8)}"
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
        self._moved = _Progress()
        self._pending = 0
        self._idle = asyncio.Event()
        self._since_copy = 0
        self._copying = False
        self._followed: Incoming | None = None

    # --- opening ---------------------------------------------------------------------------------

    def access(self, part: WorkSlice) -> SliceState:
        """Return the state for a slice, opened. From the user's thread. Raises StateError."""
        if not self._ready:
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
                    chunking=True,
                ),
                Budget(1 << 40),
                self._answered,
            )
            # An instance that was replaced may have the name still.
            await self._client.patiently(
                producer.open, timeout_s=self._client.operation_timeout_s, is_final=not_busy
            )
            if self._store is None:
                folder = Path(self._plan.folder) / "state"
                # What an instance that was killed has left is older than the topic, which is read from its start.
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                self._store = LocalStore(folder)
            if self.logs_inputs:
                await self._find_copy()
            self._reader = await TopicReader.open_at(
                self._client,
                self._topic,
                EARLIEST_ID,
                on_messages=self._follow,
                on_end=self._reader_ended,
            )
            self._reader.allow(FOLLOW_AHEAD)
            self._producer = producer
            if self.logs_inputs:
                await self._claim("")
            else:
                await self._caught_up(self._reader, self._moved)
        except MagnetarError as error:
            self._failed = error
            return
        self._ready = True

    def _reader_ended(self, error: MagnetarError) -> None:
        self.on_failed(error)

    async def _caught_up(self, reader: TopicReader, moved: _Progress) -> None:
        """Wait until everything that the topic has now was read. Raises MagnetarError; cancel-safe."""
        while True:
            before = moved.count
            more = await self._client.patiently(
                reader.has_message_available, timeout_s=self._client.operation_timeout_s
            )
            if not more:
                return
            await moved.beyond(before)

    async def _find_copy(self) -> None:
        """Find the last copy of the logged inputs. The topic may begin in the middle of them: a slice there cannot be
        judged without knowing what was before. Raises MagnetarError."""
        moved, copies = _Progress(), [b""]
        reader: TopicReader | None = None

        def look(messages: Sequence[Incoming]) -> None:
            copies.extend(
                message.content or b"" for message in messages if INPUTS in message.properties
            )
            del copies[:-1]
            if reader is not None:
                reader.allow(len(messages))
            moved.step()

        reader = await TopicReader.open_at(self._client, self._topic, EARLIEST_ID, on_messages=look)
        try:
            reader.allow(FOLLOW_AHEAD)
            await self._caught_up(reader, moved)
        finally:
            await reader.close()
        try:
            self._inputs = LoggedInputs.from_bytes(copies[0]) if copies[0] else LoggedInputs()
        except SliceFormatError as error:
            raise StateError(f"{self._topic}: the copy of the logged inputs is damaged") from error

    async def claimed(self, partition: str) -> bool:
        """Claim a partition: afterwards ``logged`` has all of its inputs that count, and no other writer's will.

        Return False, without a claim, while no instance has used the state. Raises MagnetarError.
        """
        if not self._ready:
            if not await self._exists():
                return False
            await self._opened()
        await self._claim(partition)
        return True

    async def _claim(self, partition: str) -> None:
        done: asyncio.Future[None] = self._loop.create_future()

        def on_read(counts: bool) -> None:
            finish(done, None if counts else StateError("another start of this instance is there"))

        self.log(LoggedSlice("", 0, partition, claim=True), on_read)
        await done

    async def _exists(self) -> bool:
        """Return whether any instance has used the state. Raises MagnetarError."""

        async def ask() -> bool:
            try:
                await self._client.answer_of_any(
                    lambda link, number: say.partitioned_metadata(
                        self._topic, number, metadata_auto_creation_enabled=False
                    )
                )
            except RefusedError as error:
                if error.code == ServerError.TopicNotFound:
                    return False
                if error.code == ServerError.AuthorizationError:
                    # Then it cannot be used either: that raises StateError.
                    log.info("%s is not for this function's role", self._topic)
                    return False
                raise
            return True

        return await self._client.patiently(ask, timeout_s=self._client.operation_timeout_s)

    def logged(self, partition: str) -> LoggedPartition:
        """Return what was read of a partition's inputs."""
        return self._inputs.partition(partition)

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
        own: list[tuple[Callable[[bool], None], bool]] = []
        with self._lock:
            for message in messages:
                properties = message.properties
                if SLICE in properties:
                    self._apply_slice(message, own)
                elif INPUTS not in properties:
                    self._apply(message, properties)
        self._since_copy += len(messages)
        self._followed = messages[-1]
        self._reader.allow(len(messages))
        for on_read, counts in own:
            on_read(counts)
        self._moved.step()
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
        born, version = _born(message), None
        if "born" in properties:
            born = Born(*map(int, properties["born"].split(":")))
            version = int(properties["version"])
        deleted = properties.get("deleted") == "true"
        self._store.apply(name, None if deleted else message.content or b"", born, version)
        if properties.get("session") == self._session and "born" not in properties:
            self._read_back(name)

    def _read_back(self, name: bytes) -> None:
        """Note that an own change of a register was read."""
        ahead = self._ahead.get(name)
        if ahead is not None:
            ahead[1] -= 1
            if not ahead[1]:
                del self._ahead[name]

    def _apply_slice(
        self, message: Incoming, own: list[tuple[Callable[[bool], None], bool]]
    ) -> None:
        """Apply a slice of inputs if it counts; add what waits for it to ``own``, and whether it counts."""
        assert self._store is not None
        born = _born(message)
        if born <= self._inputs.until:
            return  # the copy has it
        try:
            part = LoggedSlice.from_bytes(message.content or b"")
        except SliceFormatError as error:
            log.warning("no slice of inputs: %s at %s: %s", self._topic, message.position, error)
            return
        verdict = self._inputs.judge(part)
        if verdict is SliceVerdict.REPEATED:
            return
        is_own = part.writer == self._session
        if verdict is SliceVerdict.COUNTS:
            for name, value in part.changes.items():
                self._store.apply(name, value, born, None)
                if is_own:
                    self._read_back(name)
        on_read = self._unread.pop(part.number, None) if is_own else None
        if on_read is not None:
            own.append((on_read, verdict is SliceVerdict.COUNTS))

    async def _copy(self) -> None:
        """Publish all registers again, then let go of everything before the copy."""
        assert self._store is not None
        assert self._retaining is not None
        assert self._followed is not None
        followed, self._since_copy = self._followed, 0
        try:
            with self._lock:
                registers = list(self._store.items())
                inputs = self._inputs.to_bytes(_born(followed))
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
            if self.logs_inputs:
                messages.append(OutgoingMessage(inputs, properties={INPUTS: "copy"}))
            self._publish(messages, lambda error: finish(done, error))
            await done
            behind = _whole_before(followed)
            if behind is None:
                return
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
        counts = [register_name(COUNT, key, writer) for writer in self._counting]
        for name in (*counts, register_name(BASE, key)):
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

    def count(
        self, changes: dict[bytes, bytes | None], key: str, amount: int, partition: str = ""
    ) -> None:
        """Add to a counter. ``partition``: of the input that counts, where inputs are logged; its present owner alone
        writes its count."""
        writer = partition or self._writer
        name = register_name(COUNT, key, writer)
        with self._lock:
            self._counting.add(writer)
            before = int(self._value(name) or b"0")
            self._change(changes, name, b"%d" % (before + amount))

    def set_counter(self, changes: dict[bytes, bytes | None], key: str, number: int) -> None:
        """Give a counter the value ``number``; increments that others make meanwhile are added to it."""
        name = register_name(BASE, key)
        with self._lock:
            base = int(self._value(name) or b"0")
            self._change(changes, name, b"%d" % (base + number - self._counted(key)))

    # --- writing ---------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """True once the state is open."""
        return self._ready

    def log(self, part: LoggedSlice, on_read: Callable[[bool], None]) -> None:
        """Publish a slice, or a claim, as this writer's next. ``on_read`` is called with whether it counts."""
        part = part._replace(writer=self._session, number=self._number)
        self._unread[self._number] = on_read
        self._number += 1
        message = OutgoingMessage(part.to_bytes(), properties={SLICE: "1"})
        self._publish([message], self._logged)

    def _logged(self, error: MagnetarError | None) -> None:
        if error is not None:
            self.on_failed(error)

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
            ahead = any(
                register_name(COUNT, key, writer) in self._ahead for writer in self._counting
            )
            if number is not None or ahead:
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


def _born(message: Incoming) -> Born:
    ledger, entry = message.position
    return Born(ledger, entry, max(message.batch_index, 0))


def _whole_before(message: Incoming) -> Position | None:
    """Return the last entry of which nothing follows ``message``; None where its own is the first one of a ledger."""
    ledger, entry = message.position
    if message.batch is None or message.batch_index + 1 == message.batch.size:
        return message.position
    return Position(ledger, entry - 1) if entry else None
