"""Claims of hostile clients: well-formed commands, requests and messages whose values are extreme. Seeded.

``conversations.py`` breaks the bytes; here each byte is right and the meaning is not: counts, names, properties, ack
sets, hash ranges, patterns, chunks, epochs, sequence ids and times far beyond those of any honest client.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from engine.base.ids import Position
from engine.wire import client_commands as say
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_bytes, command_frame, key_values
from tests.support.raw_client import entry_of

NAMESPACE = "public/claims"
TOPIC = f"persistent://{NAMESPACE}/t"
TOPICS = (*(f"{TOPIC}{i}" for i in range(4)), f"non-persistent://{NAMESPACE}/n")
KEYED = f"persistent://{NAMESPACE}/keyed"
NUMBERS = (-1, 0, 1, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
LONGS = (*NUMBERS, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = ("", " ", "a+b", "a%2Fb", "%", "\u202egnp.exe", "\r\n", "\x00", "..", "x" * 300, "é" * 200)
LARGE = (1_000, 30_000, 300_000)
BODY_BYTES_MAX = 4 << 20
"""Largest body of a request: four times what the gateway accepts. No other hostile client runs while one is made, and
a body of a gigabyte takes many seconds, which the others would count against the instance."""
PATTERNS = (
    f"persistent://{NAMESPACE}/.*.*" + "a?" * 14 + "b",
    f"persistent://{NAMESPACE}/(a|aa|aaa|aaaa)*b",
    f"persistent://{NAMESPACE}/(t|t)(t|t)(t|t).*$",
    f"persistent://{NAMESPACE}/((((((.*)*)*)*)*)*)*x",
    f"persistent://{NAMESPACE}/[^",
    f"persistent://{NAMESPACE}/t{{1000}}{{1000}}",
    f"persistent://{NAMESPACE}/" + "(" * 200,
    ".*",
)


def unsigned(number: int, bits: int) -> int:
    return number & (1 << bits) - 1


def signed(number: int, bits: int) -> int:
    number = unsigned(number, bits)
    return number - (1 << bits) if number >> bits - 1 else number


class Claims:
    """Endless conversations of one connection each, from its CONNECT on."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._requests = 0
        self._kinds: tuple[Callable[[], list[bytes]], ...] = (
            self._producers,
            self._sends,
            self._chunks,
            self._subscriptions,
            self._ranges,
            self._acks,
            self._lookups,
            self._transactions,
        )

    def __iter__(self) -> Iterator[bytes]:
        while True:
            kind = self._draw.choice(self._kinds)
            yield b"".join([say.connect("claims"), *kind()])

    def _request(self) -> int:
        self._requests += 1
        return self._requests

    def _topic(self) -> str:
        return self._draw.choice(TOPICS)

    def _long(self) -> int:
        return unsigned(self._draw.choice(LONGS), 64)

    def _text(self) -> str:
        draw = self._draw
        return draw.choice(TEXTS) if draw.random() < 0.7 else "n" * draw.choice(LARGE)

    def _properties(self) -> dict[str, str]:
        draw = self._draw
        match draw.randrange(3):
            case 0:
                return {self._text(): self._text()}
            case 1:
                return {f"k{i}": "v" for i in range(draw.choice((100, 20_000)))}
            case _:
                return {"k": "v" * draw.choice(LARGE)}

    def _producers(self) -> list[bytes]:
        draw = self._draw
        return [
            say.producer(
                self._topic(),
                number,
                self._request(),
                producer_name=self._text() if draw.random() < 0.7 else None,
                epoch=self._long(),
                metadata=self._properties() if draw.random() < 0.5 else None,
                user_provided_producer_name=draw.random() < 0.5,
                access_mode=draw.randrange(4),
                topic_epoch=self._long() if draw.random() < 0.7 else None,
            )
            for number in range(draw.randrange(1, 40))
        ]

    def _sends(self) -> list[bytes]:
        draw = self._draw
        commands = [say.producer(self._topic(), 0, self._request())]
        for _ in range(draw.randrange(1, 40)):
            metadata: dict[str, Any] = {}
            if draw.random() < 0.5:
                field = draw.choice(("event_time", "publish_time", "deliver_at_time"))
                value = self._long() if field != "deliver_at_time" else signed(self._long(), 64)
                metadata[field] = value
            if draw.random() < 0.3:
                metadata["properties"] = key_values(self._properties())
            if draw.random() < 0.3:
                metadata["num_messages_in_batch"] = signed(draw.choice(NUMBERS), 32)
            body = {
                "producer_id": 0,
                "sequence_id": self._long(),
                "num_messages": signed(draw.choice(NUMBERS), 32),
                "highest_sequence_id": self._long() if draw.random() < 0.3 else None,
            }
            commands.append(
                frames.payload_frame(command_bytes("send", body), entry_of(b"v", **metadata))
            )
        return commands

    def _chunks(self) -> list[bytes]:
        draw = self._draw
        commands = [say.producer(self._topic(), 0, self._request())]
        for number in range(draw.randrange(1, 30)):
            metadata = {
                "uuid": self._text(),
                "num_chunks_from_msg": signed(draw.choice(NUMBERS), 32),
                "total_chunk_msg_size": signed(draw.choice(NUMBERS), 32),
                "chunk_id": signed(draw.choice(NUMBERS), 32),
            }
            commands.append(say.send(0, number, entry_of(b"part", **metadata), is_chunk=True))
        return commands

    def _subscriptions(self) -> list[bytes]:
        draw = self._draw
        commands = []
        for number in range(draw.randrange(1, 8)):
            body = {
                "topic": self._topic(),
                "subscription": draw.choice(("s", "__compaction", self._text())),
                "subType": draw.randrange(4),
                "consumer_id": number,
                "request_id": self._request(),
                "consumer_name": self._text(),
                "priority_level": signed(draw.choice(NUMBERS), 32),
                "durable": draw.random() < 0.5,
                "metadata": key_values(self._properties() if draw.random() < 0.3 else {}),
                "subscription_properties": key_values(
                    self._properties() if draw.random() < 0.3 else {}
                ),
                "consumer_epoch": self._long(),
                "start_message_rollback_duration_sec": self._long(),
                "initialPosition": draw.randrange(2),
            }
            commands.append(command_frame("subscribe", **body))
            commands.append(say.flow(number, unsigned(draw.choice(NUMBERS), 32)))
            if draw.random() < 0.5:
                commands.append(say.seek(number, self._request(), publish_ms=self._long()))
            commands.append(
                say.redeliver(number, [self._position() for _ in range(draw.choice((1, 9_000)))])
            )
        return commands

    def _ranges(self) -> list[bytes]:
        draw = self._draw
        count = draw.choice((1, 1000, 8000))
        step = 65536 // count
        ranges = [{"start": i * step, "end": i * step + draw.randrange(step)} for i in range(count)]
        if draw.random() < 0.3:
            ranges = [
                {"start": signed(draw.choice(NUMBERS), 32), "end": signed(draw.choice(NUMBERS), 32)}
            ]
        return [
            command_frame(
                "subscribe",
                topic=KEYED,
                subscription="sticky",
                subType=int(pb.CommandSubscribe.Key_Shared),
                consumer_id=number,
                request_id=self._request(),
                keySharedMeta={"keySharedMode": int(pb.STICKY), "hashRanges": ranges},
            )
            for number in range(2)
        ]

    def _position(self) -> Position:
        draw = self._draw
        return Position(
            draw.choice((0, 1, 7, signed(self._long(), 63))), draw.choice((0, 1, 1 << 40))
        )

    def _acks(self) -> list[bytes]:
        draw = self._draw
        commands = [
            say.producer(self._topic(), 0, self._request()),
            say.subscribe(self._topic(), "s", int(pb.CommandSubscribe.Shared), 0, self._request()),
            say.flow(0, 1000),
        ]
        for _ in range(draw.randrange(1, 6)):
            words = [signed(self._long(), 64)] * draw.choice((0, 1, 100, 90_000))
            positions = [
                self._position() for _ in range(draw.choice((1, 1, 2_000 // (1 + len(words)) + 1)))
            ]
            commands.append(
                say.ack(
                    0,
                    positions,
                    cumulative=draw.random() < 0.3,
                    ack_set=words or None,
                    request_id=self._request() if draw.random() < 0.5 else None,
                )
            )
        return commands

    def _lookups(self) -> list[bytes]:
        draw = self._draw
        commands = []
        for _ in range(draw.randrange(1, 10)):
            if draw.random() < 0.5:
                body = {
                    "namespace": NAMESPACE,
                    "mode": draw.randrange(3),
                    "topics_pattern": draw.choice(PATTERNS),
                    "request_id": self._request(),
                }
                commands.append(command_frame("getTopicsOfNamespace", **body))
            else:
                body = {
                    "namespace": NAMESPACE,
                    "topics_pattern": draw.choice(PATTERNS),
                    "watcher_id": draw.randrange(20),
                    "request_id": self._request(),
                }
                commands.append(command_frame("watchTopicList", **body))
            commands.append(say.lookup(self._text() or "t", self._request(), authoritative=False))
        return commands

    def _transactions(self) -> list[bytes]:
        return [
            say.send(0, 0, entry_of(b"v"), txn=(self._long(), self._long())),
            say.ack(
                0, [self._position()], txn=(self._long(), self._long()), request_id=self._request()
            ),
        ]


def deep(draw: random.Random) -> str:
    depth = draw.choice((90, 500, 990, 5_000, 100_000))
    return "[" * depth + "]" * depth if draw.random() < 0.5 else '{"a":' * depth + "1" + "}" * depth


def repeated(value: Any, count: int) -> str:
    """Return a list of ``count`` times ``value`` as JSON, or of as many as BODY_BYTES_MAX allows."""
    text = json.dumps(value)
    return f"[{','.join([text] * min(count, BODY_BYTES_MAX // (len(text) + 1)))}]"


BODIES: tuple[Callable[[random.Random], str], ...] = (
    deep,
    lambda draw: draw.choice(("1e400", "-1e400", "NaN", "Infinity", "1" * 5_000, "-0", "1e-400")),
    lambda draw: json.dumps({draw.choice(FIELDS): draw.choice(VALUES) for _ in range(3)}),
    lambda draw: f'{{"{draw.choice(FIELDS)}": 1e400, "{draw.choice(FIELDS)}": "\\ud800"}}',
    lambda draw: '{"a":1,"a":2,"preview":true,"preview":false}',
    lambda draw: repeated(draw.choice(VALUES), draw.choice((1, 10_000))),
    lambda draw: json.dumps(draw.choice(VALUES)),
    lambda draw: "{",
)
FIELDS = (
    *(
        "adminRoles",
        "allowedClusters",
        "limitSize",
        "limitTime",
        "policy",
        "msgRateIn",
        "bandwidthIn",
    ),
    *("bookkeeperEnsemble", "bookkeeperWriteQuorum", "retentionTimeInMinutes", "messageTTL"),
    *(
        "dispatchThrottlingRateInMsg",
        "ratePeriodInSecond",
        "type",
        "schema",
        "properties",
        "preview",
    ),
    *("delayedDeliveryTickTimeMillis", "numBundles", "boundaries", "serviceUrl", "group", "rack"),
)
VALUES: tuple[Any, ...] = (
    *LONGS,
    *TEXTS,
    *(None, True, 1e308, -1.5, [], {}, ["\ud800"], {"\ud800": "\udfff"}, "A" * 100_000, 10**400),
)
TARGETS = (
    ("PUT", "/admin/v2/tenants/{name}"),
    ("PUT", "/admin/v2/clusters/{name}"),
    ("PUT", "/admin/v2/namespaces/public/{name}"),
    ("POST", "/admin/v2/resource-quotas"),
    *(
        ("POST", f"/admin/v2/namespaces/{NAMESPACE}/{policy}")
        for policy in (
            *(
                "retention",
                "backlogQuota",
                "messageTTL",
                "persistence",
                "dispatchRate",
                "publishRate",
            ),
            *("delayedDelivery", "inactiveTopicPolicies", "autoTopicCreation", "properties"),
            *(
                "subscriptionDispatchRate",
                "maxTopicsPerNamespace",
                "entryFilters",
                "offloadPolicies",
            ),
        )
    ),
    ("PUT", f"/admin/v2/persistent/{NAMESPACE}/{{name}}"),
    ("PUT", f"/admin/v2/persistent/{NAMESPACE}/{{name}}/partitions"),
    ("POST", f"/admin/v2/persistent/{NAMESPACE}/t0/subscription/s/skip/{{number}}"),
    ("POST", f"/admin/v2/persistent/{NAMESPACE}/t0/subscription/s/resetcursor/{{number}}"),
    (
        "POST",
        f"/admin/v2/persistent/{NAMESPACE}/t0/subscription/{{name}}/expireMessages/{{number}}",
    ),
    ("PUT", f"/admin/v2/persistent/{NAMESPACE}/t0/subscription/{{name}}"),
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/t0/subscription/s/position/{{number}}"),
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/t0/examinemessage?messagePosition={{number}}"),
    ("GET", f"/admin/v2/persistent/{NAMESPACE}/{{name}}/stats"),
    ("POST", f"/admin/v2/schemas/{NAMESPACE}/t0/schema"),
    ("POST", f"/admin/v2/schemas/{NAMESPACE}/t0/compatibility"),
    ("POST", f"/api/v1/clusters/standalone/topics/persistent/{NAMESPACE}/t0/schemas/rehearsal"),
    (
        "POST",
        f"/api/v1/clusters/standalone/topics/persistent/{NAMESPACE}/t0/subscriptions/s/skip-all",
    ),
    ("POST", "/api/v1/runs"),
    ("POST", "/api/v1/views"),
    ("GET", "/api/v1/audit?limit={number}"),
    ("GET", "/api/v1/clusters/standalone/topics?q={name}&offset={number}"),
    ("GET", "/metrics"),
)


def rest_call(draw: random.Random) -> tuple[str, str, bytes]:
    """Method, path with query, and body of one request."""
    method, path = draw.choice(TARGETS)
    name = quote(draw.choice(TEXTS) or "t", safe="")
    path = path.format(name=name, number=draw.choice(LONGS))
    if method == "GET":
        return method, path, b""
    body = draw.choice(BODIES)(draw)
    return method, path, body.encode("utf-8", "surrogatepass")


def socket_path(draw: random.Random) -> str:
    where = f"persistent/{NAMESPACE}/t{draw.randrange(4)}"
    match draw.randrange(4):
        case 0:
            query = draw.choice(
                ("", "?sendTimeoutMillis=0", "?maxPendingMessages=1", "?batchingMaxMessages=-1")
            )
            return f"/ws/v2/producer/{where}{query}"
        case 1:
            name = quote(draw.choice(TEXTS) or "s", safe="")
            return f"/ws/v2/consumer/{where}/{name}?negativeAckRedeliveryDelay={draw.choice(LONGS)}"
        case 2:
            return f"/ws/v2/reader/{where}?messageId={draw.choice(('earliest', 'AAAA', '%00', 'x' * 900))}"
        case _:
            return f"/ws/v3/consumer/s?topicsPattern={quote(draw.choice(PATTERNS), safe='')}"


def socket_text(draw: random.Random) -> str:
    match draw.randrange(6):
        case 0:
            body = {
                "payload": draw.choice(("AA==", "x" * 40_000, "%")),
                "properties": {str(i): "v" for i in range(draw.choice((1, 3000)))},
                "context": draw.choice(("1", "c" * 50_000)),
                "eventTime": draw.choice(LONGS),
            }
            return json.dumps(body)
        case 1:
            return json.dumps(
                {"type": "negativeAcknowledge", "messageId": draw.choice(MESSAGE_IDS)}
            )
        case 2:
            return json.dumps({"messageId": draw.choice(MESSAGE_IDS)})
        case 3:
            return json.dumps({"type": "permit", "permitMessages": draw.choice(LONGS)})
        case 4:
            return json.dumps({"type": "isEndOfTopic"})
        case _:
            return deep(draw)


MESSAGE_IDS = ("CAAQACAA", "CAEQ////////////AQ==", "", "A" * 30_000, "CAAQgICAgICAgICAAQ==")
