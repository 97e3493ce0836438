"""Topics published through a running instance, whose answers to analyses are known.

Each function publishes to a topic of its own and returns what an analysis of it must find.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulsar
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
LARGE_BYTES = 5_000_000
CHUNKED_BYTES = 6 << 20
"""Above the largest message, 5 MiB, so that it is sent in chunks."""
BASE_MS = 1_750_000_000_000
"""Event time of the first message of topics that have event times."""


@contextmanager
def client_of(url: str) -> Iterator[pulsar.Client]:
    client = pulsar.Client(url, logger=SILENT)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def producing(client: pulsar.Client, topic: str, **options: Any) -> Iterator[Any]:
    """Yield a producer of the topic, which keeps its messages for the subscription ``keep``. At the end all of its
    messages are confirmed."""
    client.subscribe(topic, "keep", initial_position=pulsar.InitialPosition.Earliest).close()
    producer = client.create_producer(topic, block_if_queue_full=True, **options)
    yield producer
    producer.flush()
    producer.close()


def _unconfirmed(result: pulsar.Result, _: Any) -> None:
    assert result == pulsar.Result.Ok, result


def publish(
    client: pulsar.Client,
    topic: str,
    messages: Sequence[tuple[bytes, dict[str, Any]]],
    *,
    batched: bool = True,
    **options: Any,
) -> None:
    """Publish values, each with the options of ``producer.send``."""
    with producing(client, topic, batching_enabled=batched, **options) as producer:
        for value, more in messages:
            producer.send_async(value, _unconfirmed, **more)


# Keys


@dataclass(frozen=True)
class Keys:
    """Messages by key. The hottest has half of them."""

    topic: str
    messages: Counter[str]
    value_bytes: int


def hot_keys(client: pulsar.Client, topic: str, count: int = 1000, cold: int = 50) -> Keys:
    """Half of the messages have the key ``hot``, the others are spread evenly over ``cold`` keys."""
    names = ["hot" if i % 2 else f"cold-{i // 2 % cold}" for i in range(count)]
    publish(client, topic, [(b"x" * 20, {"partition_key": name}) for name in names])
    return Keys(topic, Counter(names), 20 * count)


# Sequences


@dataclass(frozen=True)
class Sequences:
    """Sequence ids of one producer, in topic order, with what is wrong with them."""

    topic: str
    producer: str
    sent: list[int]
    lost: list[int]
    doubled: list[int]
    reordered: list[int]


def faulty_sequences(client: pulsar.Client, topic: str, count: int = 200) -> Sequences:
    """Publish sequence ids 0 to ``count`` - 1 of which some are lost, doubled and out of order.

    The value and the key of a message are its sequence id, so that a copy has the content of its original.
    """
    lost = [20, 21, 22, 90]
    doubled = [40, 41, 120]
    reordered = [60]
    sent = [number for number in range(count) if number not in (*lost, *reordered)]
    for number in doubled:
        sent.insert(sent.index(number) + 5, number)
    sent.insert(sent.index(70) + 1, reordered[0])
    name = "counting-producer"
    publish(
        client,
        topic,
        [(str(n).encode(), {"partition_key": str(n), "sequence_id": n}) for n in sent],
        batched=False,
        producer_name=name,
    )
    return Sequences(topic, name, sent, lost, doubled, reordered)


# Fields


@dataclass(frozen=True)
class Drift:
    """JSON documents of two producers. The second one begins at message ``since``: it omits ``currency``, adds
    ``discount``, and sends ``price`` as text."""

    topic: str
    count: int
    since: int
    first_producer: str = "steady"
    second_producer: str = "drifting"


def drifting_fields(client: pulsar.Client, topic: str, count: int = 200, since: int = 120) -> Drift:
    drift = Drift(topic, count, since)

    def timed(number: int, document: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        options = {"event_timestamp": BASE_MS + 60_000 * number, "partition_key": str(number)}
        return json.dumps(document).encode(), options

    steady = [timed(i, {"id": i, "price": i * 1.5, "currency": "EUR"}) for i in range(since)]
    drifted = [
        timed(i, {"id": i, "price": f"{i * 1.5}", "discount": 10}) for i in range(since, count)
    ]
    publish(client, topic, steady, producer_name=drift.first_producer)
    publish(client, topic, drifted, producer_name=drift.second_producer)
    return drift


# Personal data


@dataclass(frozen=True)
class PersonalData:
    """JSON documents of ``count`` persons: fields with personal data by kind, and fields without."""

    topic: str
    count: int
    fields: dict[str, str]
    harmless: tuple[str, ...]
    persons: list[dict[str, Any]]


def personal_data(client: pulsar.Client, topic: str, count: int = 100) -> PersonalData:
    persons = [
        {
            "id": i,
            "contact": {"mail": f"person{i}@example.org", "mobile": f"+49 170 {1000000 + i}"},
            "card": "4111 1111 1111 1111",
            "account": "DE89 3704 0044 0532 0130 00",
            "address": f"192.0.2.{i % 250}",
            "color": ["red", "green"][i % 2],
            "amount": i * 3,
        }
        for i in range(count)
    ]
    publish(
        client,
        topic,
        [
            (json.dumps(p).encode(), {"partition_key": f"person{p['id']}@example.org"})
            for p in persons
        ],
    )
    fields = {
        "contact.mail": "email",
        "contact.mobile": "phone",
        "card": "card",
        "account": "iban",
        "address": "ip",
    }
    return PersonalData(topic, count, fields, ("id", "color", "amount"), persons)


# Dead letters


@dataclass(frozen=True)
class DeadLetters:
    """Letters of two subscriptions in one topic, by reason and by origin."""

    topic: str
    reasons: Counter[str]
    origins: Counter[tuple[str, str]]
    """Letters by topic and subscription."""


def dead_letters(client: pulsar.Client, topic: str) -> DeadLetters:
    """Publish letters with the properties that Pulsar's clients and their frameworks give them.

    Texts of exceptions differ in numbers only, within one reason.
    """
    orders, bills = (f"persistent://public/default/{name}" for name in ("orders", "bills"))
    letters: list[tuple[bytes, dict[str, Any]]] = []
    reasons: Counter[str] = Counter()
    origins: Counter[tuple[str, str]] = Counter()

    def add(count: int, origin: tuple[str, str], reason: str, text: str, value: str) -> None:
        for number in range(count):
            properties = {
                "REAL_TOPIC": origin[0],
                "REAL_SUBSCRIPTION": origin[1],
                "ORIGIN_MESSAGE_ID": f"7:{len(letters)}:-1",
                "RECONSUMETIMES": "3",
            }
            if text:
                properties["exception"] = text.format(number)
            letters.append((value.format(number).encode(), {"properties": properties}))
        reasons[reason] += count
        origins[origin] += count

    add(30, (orders, "ship"), "timeout", "TimeoutError: no answer within {}00 ms", '{{"id": {}}}')
    add(
        12, (orders, "ship"), "parse", "ValueError: field price: '{}' is no number", '{{"price": {}'
    )
    add(5, (bills, "print"), "", "", "plain text {}")
    publish(client, topic, letters)
    return DeadLetters(topic, reasons, origins)


# Hostile content


@dataclass(frozen=True)
class Hostile:
    """Contents that break careless readers: how many messages of each kind, and the ordinary ones between them."""

    topic: str
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return sum(self.kinds.values())


def hostile(client: pulsar.Client, topic: str, keys: Path) -> Hostile:
    """Publish 5 MB values, bad JSON, null values, encrypted and chunked messages. ``keys``: folder for RSA keys."""
    answer = Hostile(topic)
    chance = random.Random(11)
    plain: list[tuple[str, bytes | None]] = [
        ("large", b'{"blob": "' + b"a" * LARGE_BYTES + b'"}'),
        ("bad json", b'{"id": 1, "name": '),
        ("bad json", b'{"id": ' + b"[" * 100_000),
        ("bad json", b'{"id": NaN, "id": 2}'),
        ("binary", bytes(range(256))),
        ("binary", b"\xff\xfe\x00<script>"),
        ("empty", b""),
        ("null", None),
        ("deep json", b'{"a":' * 200 + b"1" + b"}" * 200),
        ("json", b'{"id": 9007199254740993, "id text": "\\u0000\\ud800"}'),
    ]
    with producing(client, topic, batching_enabled=False) as producer:
        for kind, value in plain:
            properties = {"kind": kind, "": "empty name", "\u202ename": "x" * 1000}
            # A message without a value is what compaction deletes a key by.
            producer.send(value, partition_key="=cmd|' /C calc'!A0", properties=properties)
            answer.kinds[kind] += 1
    with producing(client, topic, chunking_enabled=True, batching_enabled=False) as producer:
        producer.send(chance.randbytes(CHUNKED_BYTES), partition_key="chunked")
        answer.kinds["chunked"] += 1
    reader = pulsar.CryptoKeyReader(*map(str, _rsa_keys(keys)))
    for batched in (False, True):
        with producing(
            client,
            topic,
            batching_enabled=batched,
            crypto_key_reader=reader,
            encryption_key="test-key",
        ) as producer:
            for number in range(3):
                producer.send_async(f"secret {number}".encode(), _unconfirmed)
        answer.kinds["encrypted"] += 3
    publish(client, topic, [(b'{"id": %d}' % i, {"partition_key": "plain"}) for i in range(10)])
    answer.kinds["json"] += 10
    return answer


def _rsa_keys(folder: Path) -> tuple[Path, Path]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public, private = folder / "public.pem", folder / "private.pem"
    encoding = serialization.Encoding.PEM
    public.write_bytes(
        key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    private.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, private
