"""Producers register schemas with one topic's partitions, on several brokers at once, under faults: each schema is one
version, a version that a client received never changes, and no message has a version that cannot be read."""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from engine.admin.api.schemas import DELETE_SCHEMA, DeleteSchema
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.client.raw_consumer import FROM_EARLIEST, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.ledger.ledger_metadata import decode
from engine.metadata import paths
from engine.metadata.store import NoNodeError
from engine.schema.kinds import version_bytes
from engine.schema.locator import SchemaVersion, parse_locator
from engine.schema.schema_registry import schema_id
from engine.wire import client_commands as say
from engine.wire import events
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.errors import RefusedError, ServerError
from tests.sim.kit.scenario import Run, first_of
from tests.sim.topics.administrator import Administrator
from tests.sim.topics.client import Client
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

TOPIC = TopicName.parse("persistent://public/default/typed")
PARTITIONS = 2
FORMS = 6
"""Number of forms: records with 0 to FORMS - 1 optional fields. Any may follow any under every strategy."""
SPACES = (None, 1)
"""Ways to write the same definition down."""
PERMITS = 1_000_000
SETTLE_S = 60.0
NODE = paths.schema(schema_id(TOPIC))


def definition(form: int, indent: int | None) -> bytes:
    fields = [{"name": f"f{i}", "type": ["null", "string"], "default": None} for i in range(form)]
    record = {"type": "record", "name": "Typed", "fields": fields}
    return json.dumps(record, indent=indent).encode()


def form_of(data: bytes) -> int:
    return len(json.loads(data)["fields"])


def given(form: int, indent: int | None) -> pb.Schema:
    return pb.Schema(name="typed", type=pb.Schema.Avro, schema_data=definition(form, indent))


@dataclass(frozen=True)
class Schemas:
    """``writers`` producers that each attach again with another schema after about ``stay_s``; ``deletions`` of all
    versions per second; the share ``lost`` of answers to brokers that store a version."""

    writers: int
    stay_s: float
    deletions: float
    lost: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Schemas":
        deletions = rng.choice((0.0, 0.0, 0.3))
        return cls(
            rng.choice((2, 3, 4)), rng.choice((0.2, 1.0)), deletions, rng.choice((0.0, 0.1, 0.3))
        )

    def setup(self, run: Run) -> "SchemasWorkload":
        return SchemasWorkload(run, self)


class ReportedForms:
    """The form of each version, as brokers reported it to clients."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.forms: dict[int, int] = {}

    def record(self, who: str, version: bytes, form: int) -> int:
        number = int.from_bytes(version, "big")
        known = self.forms.setdefault(number, form)
        if len(version) != 8 or known != form:
            self._observer.wrong(f"{who}: version {version.hex()} is form {known} and form {form}")
        return number


class Writer(Client):
    """A producer that attaches with a schema, publishes under the version it received, and attaches with another."""

    def __init__(
        self, observer: Observer, reported: ReportedForms, number: int, plan: Schemas
    ) -> None:
        topic = TOPIC.partition_at(number % PARTITIONS)
        super().__init__(observer, f"writer-{number}", str(topic))
        self.reported = reported
        self.plan = plan
        self.sent: dict[int, int] = {}
        """Form by sequence id."""
        self.stored: set[int] = set()
        self.attached = 0
        self.since_calm = 0

    async def _session(self) -> None:
        link = await self.open()
        while True:
            form, indent = self.rng.randrange(FORMS), self.rng.choice(SPACES)
            if self.calm:
                form = self.since_calm % FORMS
            if self.rng.random() < 0.3:
                await self._get_or_create(form, indent)
            producer = await RawProducer.open(
                link,
                self.topic,
                on_receipts=self._receipts,
                on_end=self.wake_up,
                schema=given(form, indent),
            )
            version = producer.schema_version
            self.reported.record(self.name, version, form)
            self.attached += 1
            self._say(producer, version, form)
            self.wake.clear()
            try:
                async with asyncio.timeout(self.rng.expovariate(1 / self.plan.stay_s)):
                    await self.wake.wait()
            except TimeoutError:
                pass
            if producer.error is not None:
                raise producer.error
            if self.calm:
                self.since_calm += 1
                await producer.drained()
            await producer.close()

    async def _get_or_create(self, form: int, indent: int | None) -> None:
        assert self.link is not None
        request_id = self.link.new_id()
        frame = say.get_or_create_schema(self.topic, request_id, given(form, indent))
        answer = await self.link.request(request_id, frame)
        self.reported.record(self.name, answer.schema_version, form)

    def _say(self, producer: RawProducer, version: bytes, form: int) -> None:
        count = self.rng.choice((1, 3))
        numbers = range(len(self.sent), len(self.sent) + count)
        self.sent.update(dict.fromkeys(numbers, form))
        extra = {"schema_version": version}
        entries = [
            pack_entry(
                [Message(b"%s %d %d" % (self.name.encode(), n, form), sequence_id=n)],
                producer_name=producer.name,
                publish_ms=1,
                extra=extra,
            )
            for n in numbers
        ]
        producer.send(numbers, entries)

    def _receipts(self, receipts: Sequence[events.Receipt]) -> None:
        self.stored.update(receipt.sequence_id for receipt in receipts)

    def _check(self, error: Exception) -> None:
        super()._check(error)
        refused = isinstance(error, RefusedError) and error.code == ServerError.IncompatibleSchema
        if refused:
            self.observer.wrong(f"{self.name}: {error}")


class Keeper(Client):
    """A consumer of one partition that acknowledges nothing and requests the schema of each version it receives."""

    def __init__(self, observer: Observer, reported: ReportedForms, partition: int) -> None:
        super().__init__(observer, f"keeper-{partition}", str(TOPIC.partition_at(partition)))
        self.reported = reported
        self.received: set[tuple[str, int]] = set()
        self.consumer: RawConsumer | None = None
        self.unread: dict[int, None] = {}
        self.read: set[int] = set()

    async def _session(self) -> None:
        link = await self.open()
        consumer = await RawConsumer.open(
            link,
            self.topic,
            "keeper",
            on_messages=self._receive,
            on_end=self.wake_up,
            initial=FROM_EARLIEST,
        )
        consumer.flow(PERMITS)
        self.consumer = consumer
        try:
            while consumer.error is None:
                self.wake.clear()
                for number in list(self.unread):
                    await self._get(number)
                if not self.unread:
                    await self.wake.wait()
            raise consumer.error
        finally:
            self.consumer = None

    async def _get(self, number: int) -> None:
        assert self.link is not None
        request_id = self.link.new_id()
        frame = say.get_schema(self.topic, request_id, version_bytes(number))
        answer = await self.link.request(request_id, frame)
        self.reported.record(self.name, answer.schema_version, form_of(answer.schema.schema_data))
        self.unread.pop(number, None)
        self.read.add(number)

    def _receive(self, messages: Sequence[events.Delivered]) -> None:
        for message in messages:
            entry = unpack_entry(message.entry)
            (content,) = entry.messages
            assert content.value is not None
            writer, sequence, form = content.value.decode().split()
            self.received.add((writer, int(sequence)))
            number = self.reported.record(self.name, entry.metadata.schema_version, int(form))
            if number not in self.read:
                self.unread[number] = None
        self.wake_up()

    def _check(self, error: Exception) -> None:
        super()._check(error)
        if isinstance(error, RefusedError) and error.code == ServerError.TopicNotFound:
            self.observer.wrong(f"{self.name}: a message's version is not known: {error}")


class SchemasWorkload:
    def __init__(self, run: Run, plan: Schemas) -> None:
        self.run = run
        self.rng = run.rng
        self.plan = plan
        topics = [str(TOPIC.partition_at(i)) for i in range(PARTITIONS)]
        self.observer = Observer(run.cluster, topics)
        self.reported = ReportedForms(self.observer)
        self.administrator = Administrator(self.observer, visits=False)
        self.keepers = [Keeper(self.observer, self.reported, i) for i in range(PARTITIONS)]
        self.writers = [Writer(self.observer, self.reported, i, plan) for i in range(plan.writers)]
        self.calm = False
        self._listed: Sequence[SchemaVersion] = ()
        run.faults |= {name: partial(act, self.observer) for name, act in TOPIC_FAULTS.items()}
        run.cluster.tree.taps.append(self._lose)

    def _lose(self, path: str, value: bytes | None, conditional: bool) -> None:
        if path == NODE and not self.calm and self.rng.random() < self.plan.lost:
            self.run.loop.call_soon(self._break)

    def _break(self) -> None:
        for machine in self.run.cluster.brokers:
            if machine.store is not None:
                self.run.cluster.metadata.break_connection(machine.store.session_id)
        self.run.cluster.count("answers lost")

    async def start(self) -> None:
        administrator = self.administrator
        await administrator.work(administrator.create_partitioned(TOPIC, PARTITIONS))
        self.run.watch(self._look)
        for keeper in self.keepers:
            keeper.start()
        await self.run.reach("keep", self._kept, SETTLE_S, lambda: ["a keeper"])
        for writer in self.writers:
            writer.start()
        await self.run.reach(
            "publish",
            lambda: all(client.stored for client in self.writers),
            SETTLE_S,
            lambda: ["some"],
        )
        if self.plan.deletions:
            administrator.work(self._delete_now_and_then())

    def _kept(self) -> bool:
        return all(keeper.consumer is not None for keeper in self.keepers)

    async def _delete_now_and_then(self) -> None:
        args = DeleteSchema(TOPIC.partition_at(0), force=False)
        while not self.calm:
            await asyncio.sleep(self.rng.expovariate(self.plan.deletions))
            try:
                await self.administrator.brokers.call(DELETE_SCHEMA, args)
                self.run.cluster.count("schemas deleted")
            except MagnetarError:
                self.run.cluster.count("verbs refused")

    def _look(self) -> None:
        """Check that listed versions stay, under rising numbers, and that no two have the same schema bytes."""
        try:
            newest, versions = parse_locator(self.run.cluster.tree.get(NODE)[0])
        except NoNodeError:
            versions, newest = [], -1
        if list(versions[: len(self._listed)]) != list(self._listed):
            self.observer.wrong(f"listed {self._listed}, then {versions}")
        if [version.version for version in versions] != list(range(newest + 1)):
            self.observer.wrong(
                f"versions {[version.version for version in versions]}, newest {newest}"
            )
        since = [version.hash for version in versions[_after_deletion(versions) :]]
        if len(since) != len(set(since)):
            self.observer.wrong(f"one schema is two versions: {versions}")
        for version in versions[len(self._listed) :]:
            ledger = decode(self.run.cluster.tree.get(paths.ledger(version.ledger_id))[0])
            quorum = ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum
            if quorum != self.run.cluster.shape.quorum:
                self.observer.wrong(f"version {version.version} is kept by {quorum}")
        self._listed = versions

    async def quiet(self) -> None:
        self.calm = True
        for client in (*self.writers, *self.keepers):
            client.calm = True
        await self.run.reach(
            "bring schemas again",
            lambda: all(writer.since_calm >= FORMS for writer in self.writers),
            SETTLE_S,
            lambda: [f"{writer.name}: {writer.since_calm}" for writer in self.writers],
        )
        for writer in self.writers:
            assert writer.task is not None
            writer.task.cancel()
        await self.run.reach("hear all", lambda: not self._missing(), SETTLE_S, self._missing)
        await self.run.reach("read all", self._all_read, SETTLE_S, lambda: ["a version"])
        self._look()

    def _missing(self) -> list[str]:
        received = {message for keeper in self.keepers for message in keeper.received}
        return [
            f"{writer.name} {number}"
            for writer in self.writers
            for number in writer.stored
            if (writer.name, number) not in received
        ][:5]

    def _all_read(self) -> bool:
        return not any(keeper.unread for keeper in self.keepers)

    def check(self) -> list[str]:
        wrong = list(self.observer.history.anomalies)
        numbers = {version.version for version in self._listed}
        for number, form in sorted(self.reported.forms.items()):
            if number not in numbers:
                wrong.append(f"version {number} was reported for form {form} and is not listed")
        count = self.run.cluster.count
        count("schemas brought", sum(writer.attached for writer in self.writers))
        count("schema versions", len(self._listed))
        count("published", sum(len(writer.stored) for writer in self.writers))
        return first_of([f"schemas: {text}" for text in wrong], "schemas")


def _after_deletion(versions: Sequence[SchemaVersion]) -> int:
    """Return the index of the first version after the last deletion, which has no hash."""
    return max((i + 1 for i, version in enumerate(versions) if not version.hash), default=0)
