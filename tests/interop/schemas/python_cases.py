"""Cases of schemas with the official Python client: it reads the name of a case per line, and answers with a line of
JSON."""

import json
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from pulsar.schema import (
    AvroSchema,
    BytesSchema,
    Integer,
    JsonSchema,
    ProtobufNativeSchema,
    Record,
    String,
    StringSchema,
)

RECEIVE_MS = 20_000


class First:
    """First form of a user."""

    class User(Record):  # type: ignore[misc]
        name = String(required=True)
        age = Integer(required=True)


class Second:
    """Form of a user with one more field, which has a default: this form and the first read each other."""

    class User(Record):  # type: ignore[misc]
        name = String(required=True)
        age = Integer(required=True)
        mail = String(required_default=True)  # a null


class Third:
    """Form of a user that is incompatible with the others: its age is a text."""

    class User(Record):  # type: ignore[misc]
        name = String(required=True)
        age = String(required=True)


class Broken:
    """Form of a user with a default that does not have the field's type: Avro's own parser refuses the definition."""

    class User(Record):  # type: ignore[misc]
        name = String(required=True)
        age = Integer(required=True)
        mail = String(default="unknown", required_default=True)


AVRO = [AvroSchema(form.User) for form in (First, Second, Third)]
JSON = [JsonSchema(form.User) for form in (First, Second, Third)]
NATIVE = ProtobufNativeSchema(Timestamp)


class Cases:
    """Methods of the cases: every method without a leading underscore is one."""

    def __init__(self, url: str, run: str, keys: str) -> None:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(url, operation_timeout_seconds=10, logger=quiet)
        self._run = run
        key_files = (str(Path(keys) / "public.pem"), str(Path(keys) / "private.pem"))
        self._keys = pulsar.CryptoKeyReader(*key_files)

    # --- letters, keys, readers ------------------------------------------------------------------

    def dead_letter(self) -> Any:
        topic = self._topic("dead")
        dead = self._consumer(AVRO[0], f"{topic}-s-DLQ", "after")
        consumer = self._consumer(
            AVRO[0],
            topic,
            "s",
            consumer_type=pulsar.ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=100,
            dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(max_redeliver_count=1),
        )
        self._write(AVRO[0], topic, First.User(name="ann", age=1), partition_key="k")
        for _ in range(2):
            consumer.negative_acknowledge(consumer.receive(RECEIVE_MS))
        letter = dead.receive(RECEIVE_MS)
        return [AVRO[0].decode(letter.data()).__dict__["name"], letter.partition_key()]

    def encryption(self) -> Any:
        topic = self._topic("encrypted")
        consumer = self._consumer(JSON[1], topic, "s", crypto_key_reader=self._keys)
        self._write(JSON[0], topic, First.User(name="ann", age=1), **self._encrypting)
        blind = self._consumer(
            BytesSchema(),
            topic,
            "blind",
            crypto_failure_action=pulsar.ConsumerCryptoFailureAction.CONSUME,
        )
        sealed = blind.receive(RECEIVE_MS)
        return [
            described(received(consumer)),
            sealed.encryption_context() is not None,
            version(sealed),
        ]

    @property
    def _encrypting(self) -> dict[str, Any]:
        return {"encryption_key": "key", "crypto_key_reader": self._keys}

    def reader(self) -> Any:
        topic = self._topic("read")
        self._write(JSON[0], topic, First.User(name="ann", age=1))
        self._write(JSON[1], topic, Second.User(name="bob", age=2, mail="b@x"))
        seen: list[Any] = []
        for schema in (JSON[1], BytesSchema()):
            reader = self._client.create_reader(topic, pulsar.MessageId.earliest, schema=schema)
            while reader.has_message_available():
                message = reader.read_next(RECEIVE_MS)
                seen.append(described(message) if schema is JSON[1] else version(message))
            reader.close()

        def other() -> None:
            self._client.create_reader(topic, pulsar.MessageId.earliest, schema=JSON[2])

        return [*seen, refused(other)]

    def table_view(self) -> Any:
        topic = self._topic("table")
        producer = self._client.create_producer(topic, schema=JSON[1])
        for i, key in enumerate("aba"):
            producer.send(Second.User(name=key, age=i, mail="x"), partition_key=key)
        view = self._client.create_table_view(topic, schema=JSON[1])
        rows: dict[str, str] = {}
        view.for_each(lambda key, user: rows.update({key: f"{user.name} {user.age} {user.mail}"}))
        view.close()
        return [rows, refused(lambda: self._client.create_table_view(topic, schema=JSON[2]))]

    # --- schemas that follow each other ----------------------------------------------------------

    def avro_evolution(self) -> Any:
        return self._evolution("avro", *AVRO[:2])

    def json_evolution(self) -> Any:
        return self._evolution("json", *JSON[:2])

    def _evolution(self, name: str, first: Any, second: Any) -> Any:
        topic = self._topic(f"evolution-{name}")
        old = self._consumer(first, topic, "old")
        self._write(first, topic, First.User(name="ann", age=1))
        self._write(second, topic, Second.User(name="bob", age=2, mail="b@x"))
        young = self._consumer(second, topic, "young")
        self._write(first, topic, First.User(name="cid", age=3))
        return [described(received(consumer)) for _ in range(3) for consumer in (old, young)]

    def protobuf_native(self) -> Any:
        topic = self._topic("native")
        consumer = self._consumer(NATIVE, topic, "s")
        self._write(NATIVE, topic, Timestamp(seconds=7, nanos=9))
        message = received(consumer)
        value = message.value()
        other = ProtobufNativeSchema(Duration)
        return [
            f"{value.seconds} {value.nanos}",
            version(message),
            self._producing(other, topic),
            self._consuming(other, topic),
        ]

    # --- refusals --------------------------------------------------------------------------------

    def incompatible(self) -> Any:
        seen = []
        for name, forms in (("avro", AVRO), ("json", JSON)):
            topic = self._topic(f"incompatible-{name}")
            seen += [
                self._producing(forms[0], topic),
                self._producing(forms[2], topic),
                self._consuming(forms[2], topic),
                self._producing(forms[1], topic),
                self._consuming(forms[0], topic),
            ]
        return seen

    def broken(self) -> Any:
        """Use a broken definition as the first and as a later version.

        Apache's broker does not answer it as a later version: its clients wait until they give up.
        """
        seen = []
        for name, forms, broken in (
            ("avro", AVRO, AvroSchema(Broken.User)),
            ("json", JSON, JsonSchema(Broken.User)),
        ):
            topic = self._topic(f"broken-{name}")
            seen += [
                self._producing(forms[0], topic),
                self._producing(broken, topic),
                self._consuming(broken, topic),
                self._producing(forms[1], topic),
                self._producing(broken, f"{topic}-first"),
                self._producing(forms[0], f"{topic}-first"),
            ]
        return seen

    def another_type(self) -> Any:
        typed, plain = self._topic("typed"), self._topic("untyped")
        seen = [self._producing(AVRO[0], typed)]
        for schema in (JSON[0], StringSchema(), BytesSchema()):
            seen += [self._producing(schema, typed), self._consuming(schema, typed)]
        producer = self._client.create_producer(plain)
        producer.send(b"1")
        seen += [
            self._consuming(StringSchema(), plain),
            self._producing(StringSchema(), plain),
            self._consuming(StringSchema(), plain),
        ]
        return seen

    def enforced(self) -> Any:
        topic = f"persistent://public/schemas-enforced/{self._run}python"
        return [
            self._producing(BytesSchema(), topic),
            self._producing(AVRO[0], topic),
            self._producing(BytesSchema(), topic),
            self._consuming(BytesSchema(), topic),
        ]

    def fixed(self) -> Any:
        topic = f"persistent://public/schemas-fixed/{self._run}python"
        return [self._producing(AVRO[0], topic), self._consuming(AVRO[1], topic)]

    # --- topics ----------------------------------------------------------------------------------

    def partitioned(self) -> Any:
        topic = self._topic("partitioned")  # created with three partitions by the test
        consumer = self._consumer(AVRO[1], topic, "s")
        producer = self._client.create_producer(
            topic,
            schema=AVRO[0],
            batching_enabled=False,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )
        for i in range(6):
            producer.send(First.User(name="ann", age=i))
        seen = sorted(described(received(consumer)) for _ in range(6))
        return [*seen, self._producing(AVRO[2], topic), self._consuming(AVRO[2], topic)]

    def several_topics(self) -> Any:
        topics = [self._topic("many-1"), self._topic("many-2")]
        self._write(JSON[1], topics[0], Second.User(name="ann", age=1, mail="a@x"))
        self._write(JSON[0], topics[1], First.User(name="bob", age=2))
        return self._both(JSON[1], topics)

    def regex(self) -> Any:
        self._write(JSON[0], self._topic("pattern-1"), First.User(name="ann", age=1))
        self._write(JSON[1], self._topic("pattern-2"), Second.User(name="b", age=2, mail="b@x"))
        return self._both(JSON[1], re.compile(self._topic("pattern-") + ".*"))

    def _both(self, schema: Any, topics: Any) -> Any:
        consumer = self._consumer(schema, topics, "s")
        messages = [received(consumer) for _ in range(2)]
        return sorted(f"{message.topic_name()[-1]} {described(message)}" for message in messages)

    # --- over a restart of the broker ------------------------------------------------------------

    def attach(self) -> Any:
        """Start producers of two versions, which send until ``after_restart``."""
        topic = self._topic("attached")
        self._senders = [
            self._client.create_producer(topic, schema=schema, send_timeout_millis=0)
            for schema in AVRO[:2]
        ]
        self._attached = self._consumer(AVRO[1], topic, "s")
        self._receipts: list[pulsar.Result] = []
        self._stop = threading.Event()
        self._count = 0
        self._thread = threading.Thread(target=self._send)
        self._thread.start()
        return "sending"

    def _send(self) -> None:
        while not self._stop.wait(0.005):
            i, self._count = self._count, self._count + 1
            forms: list[Any] = [
                First.User(name="ann", age=i),
                Second.User(name="bob", age=i, mail="b@x"),
            ]
            self._senders[i % 2].send_async(forms[i % 2], lambda how, _: self._receipts.append(how))

    def after_restart(self) -> Any:
        assert self._producing(StringSchema(), self._topic("attached") + "-words") == "taken"
        self._stop.set()
        self._thread.join(60)
        until = time.monotonic() + 40
        while len(self._receipts) < self._count and time.monotonic() < until:
            time.sleep(0.01)
        seen: dict[int, str] = {}
        while len(seen) < self._count:
            message = received(self._attached)
            seen[message.value().age] = described(message)
        wrong = [
            seen.get(i)
            for i in range(self._count)
            if seen.get(i) != (f"bob {i} b@x" if i % 2 else f"ann {i}") + f" {i % 2:016x}"
        ]
        failed = [str(how) for how in self._receipts if how != pulsar.Result.Ok]
        refusal = self._producing(AVRO[2], self._topic("attached"))
        return [self._count > 10, len(self._receipts) == self._count, wrong, failed, refusal]

    # --- with other languages --------------------------------------------------------------------

    def write_for_others(self) -> Any:
        user = First.User(name="python", age=1)
        values: list[tuple[str, Any, Any]] = [
            ("avro", AVRO[0], user),
            ("json", JSON[0], user),
            ("string", StringSchema(), "python"),
            ("native", NATIVE, Timestamp(seconds=1)),
        ]
        for kind, schema, value in values:
            self._write(schema, self._shared(f"python-{kind}"), value, partition_key="k")
        topic = self._shared("python-encrypted")
        self._write(JSON[0], topic, user, partition_key="k", **self._encrypting)
        return "written"

    def read_java(self) -> Any:
        return self._read_others("java")

    def read_go(self) -> Any:
        return self._read_others("go")

    def _read_others(self, language: str) -> Any:
        schemas: dict[str, Any] = {
            "avro": AVRO[1],
            "json": JSON[1],
            "encrypted": JSON[1],
            "native": NATIVE,
            "string": StringSchema(),
            "int64": BytesSchema(),
        }
        seen = {}
        for kind, schema in schemas.items():
            topic = self._shared(f"{language}-{kind}")
            consumer = self._consumer(schema, topic, "python", crypto_key_reader=self._keys)
            message = received(consumer)
            if kind in ("avro", "json", "encrypted"):
                seen[kind] = described(message)
            else:
                seen[kind] = f"{message.data().hex()} {version(message)}"
        return seen

    # --- helpers of the cases --------------------------------------------------------------------

    def _topic(self, name: str) -> str:
        return f"persistent://public/schemas/{self._run}python-{name}"

    def _shared(self, name: str) -> str:
        """Return the name of a topic that programs in other languages use, too."""
        return f"persistent://public/schemas/{self._run}shared-{name}"

    def _consumer(self, schema: Any, topic: Any, name: str, **options: Any) -> pulsar.Consumer:
        earliest = pulsar.InitialPosition.Earliest
        options = {"schema": schema, "initial_position": earliest, **options}
        return self._client.subscribe(topic, name, **options)

    def _write(
        self, schema: Any, topic: str, value: Any, partition_key: str | None = None, **options: Any
    ) -> None:
        producer = self._client.create_producer(topic, schema=schema, **options)
        producer.send(value, partition_key=partition_key)
        producer.close()

    def _producing(self, schema: Any, topic: str) -> str:
        return refused(lambda: self._client.create_producer(topic, schema=schema).close())

    def _consuming(self, schema: Any, topic: str) -> str:
        return refused(lambda: self._client.subscribe(topic, "tried", schema=schema).close())


def received(consumer: pulsar.Consumer) -> pulsar.Message:
    message = consumer.receive(RECEIVE_MS)
    consumer.acknowledge(message)
    return message


def version(message: pulsar.Message) -> str:
    stored = message.schema_version()
    return stored.hex() if isinstance(stored, bytes) else stored.encode("latin-1").hex()


def described(message: pulsar.Message) -> str:
    """Return a user as the consumer's schema reads it, and the version; the error's name for an unreadable user."""
    try:
        user = message.value()
    except Exception as error:
        return f"{type(error).__name__} {version(message)}"
    words = [user.name, str(user.age), getattr(user, "mail", None), version(message)]
    return " ".join(word for word in words if word)


def refused(work: Callable[[], Any]) -> str:
    """Return the name of the client's exception, "taken" when none was raised."""
    try:
        work()
    except pulsar.PulsarException as error:
        return type(error).__name__
    return "taken"


def answer(cases: Cases, name: str) -> dict[str, Any]:
    try:
        return {"seen": getattr(cases, name)()}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def main(url: str, run: str, keys: str) -> None:
    cases = Cases(url, run, keys)
    for line in sys.stdin:
        print("#" + json.dumps(answer(cases, line.strip())), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
