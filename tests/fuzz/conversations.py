"""Conversations of clients with a broker: commands of every kind, with any values, in any order, their bytes changed or
not. Seeded: the same seed gives the same conversations.
"""

import random
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as AnyMessage

from engine.wire import client_commands as say
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import FIELD_OF_TYPE, command_bytes
from engine.wire.states import REQUESTS
from tests.fuzz.frames import seal_entry
from tests.fuzz.mutate import NUMBERS, Mutator
from tests.support.raw_client import entry_of

NAMESPACE = "public/fuzz"
TOPICS = (
    *(f"persistent://{NAMESPACE}/t{i}" for i in range(6)),
    *(f"non-persistent://{NAMESPACE}/n{i}" for i in range(2)),
    f"persistent://{NAMESPACE}/whole",  # partitioned
    *(f"persistent://{NAMESPACE}/whole-partition-{i}" for i in (0, 1, 7)),
)
NO_TOPICS = ("", "t", "persistent://", "persistent://no/such/t", "x://a/b/c", "a/b", "\x00", "..")
SUBSCRIPTIONS = ("s", "shared", "", "\u202e", "a/b c")
NAMES = ("", "p", "q", "\ud7ff", "x" * 300)
IDS = (0, 1, 2, 3)
COMMANDS_MAX = 24
"""Commands of one conversation, after its CONNECT."""
OFTEN = ("producer", "subscribe", "flow", "ack", "send", "seek", "redeliverUnacknowledgedMessages")


class Conversations:
    """Endless conversations of clients, each the bytes of one connection from its CONNECT on.

    ``hostile`` false: conversations of good clients, of the same size, with the same topics.
    """

    def __init__(self, seed: int, *, hostile: bool = True) -> None:
        self._random = random.Random(seed)
        self._hostile = hostile
        self._mutator = Mutator([say.connect("fuzz")], seed=seed)
        self._requests = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self._hostile_one() if self._hostile else self._good_one()

    # Good ones

    def _good_one(self) -> bytes:
        """Return the bytes of a producer that sends to a topic and of a consumer of it."""
        draw = self._random
        topic = draw.choice(TOPICS[:8])
        commands = [say.connect("fuzz"), *self._attached(0, topic)]
        commands += [self._send(0, i) for i in range(COMMANDS_MAX // 2)]
        commands += [say.close_producer(0, self._request()), say.close_consumer(0, self._request())]
        return b"".join(commands)

    def _attached(self, number: int, topic: str) -> list[bytes]:
        """Return commands that attach a producer and a consumer, each with the id ``number``."""
        kind = self._random.choice((pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared))
        name = f"{pb.CommandSubscribe.SubType.Name(kind)}"
        return [
            say.producer(topic, number, self._request()),
            say.subscribe(topic, name, kind, number, self._request(), durable=True),
            say.flow(number, 100),
        ]

    def _send(self, producer_id: int, sequence_id: int) -> bytes:
        body = {"producer_id": producer_id, "sequence_id": sequence_id}
        return frames.payload_frame(command_bytes("send", body), entry_of(b"good"))

    def _request(self) -> int:
        self._requests += 1
        return self._requests

    # Others

    def _hostile_one(self) -> bytes:
        draw = self._random
        commands = [] if draw.random() < 0.03 else [say.connect("fuzz")]
        if draw.random() < 0.8:  # most commands need an attached producer or consumer
            for number in range(draw.randrange(1, 3)):
                commands += self._attached(number, draw.choice(TOPICS))
        commands += [self._any_command() for _ in range(draw.randrange(1, COMMANDS_MAX))]
        if draw.random() < 0.2:
            draw.shuffle(commands)
        data = b"".join(commands)
        return self._mutator.changed(data) if draw.random() < 0.4 else data

    def _any_command(self) -> bytes:
        draw = self._random
        if draw.random() < 0.6:
            field = draw.choice(OFTEN)
        elif draw.random() < 0.98:
            field = FIELD_OF_TYPE[draw.choice(tuple(REQUESTS))]
        else:
            field = draw.choice(tuple(FIELD_OF_TYPE.values()))
        command = pb.BaseCommand()
        command.type = next(kind for kind, name in FIELD_OF_TYPE.items() if name == field)  # type: ignore[assignment]
        body = getattr(command, field)
        body.SetInParent()
        self._fill(body)
        encoded = command.SerializePartialToString()
        if field != "send":
            return frames.frame(encoded)
        return frames.payload_frame(encoded, self._any_entry())

    def _any_entry(self) -> bytes:
        draw = self._random
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
        if draw.random() < 0.7:
            self._fill(metadata)
        head = metadata.SerializePartialToString()
        entry = bytes(6) + len(head).to_bytes(4, "big") + head + draw.randbytes(draw.randrange(60))
        if draw.random() < 0.2:
            entry = self._mutator.changed(entry)
        return seal_entry(entry) if draw.random() < 0.95 else entry

    def _fill(self, message: AnyMessage, depth: int = 0) -> None:
        """Required fields nearly always, others half of the time."""
        draw = self._random
        for field in message.DESCRIPTOR.fields:
            if draw.random() > (0.998 if field.is_required else 0.4):
                continue
            if field.is_repeated:
                for _ in range(draw.choice((1, 1, 2, 5))):
                    self._add(message, field, depth)
            elif field.type == FieldDescriptor.TYPE_MESSAGE:
                inner = getattr(message, field.name)
                inner.SetInParent()
                if depth < 4:
                    self._fill(inner, depth + 1)
            else:
                setattr(message, field.name, self._value(field))

    def _add(self, message: AnyMessage, field: Any, depth: int) -> None:
        values = getattr(message, field.name)
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            values.append(self._value(field))
        elif depth < 4:
            self._fill(values.add(), depth + 1)

    def _value(self, field: Any) -> Any:
        draw = self._random
        match field.type:
            case FieldDescriptor.TYPE_BOOL:
                return draw.random() < 0.5
            case FieldDescriptor.TYPE_ENUM:
                return draw.choice(field.enum_type.values).number
            case FieldDescriptor.TYPE_BYTES:
                return draw.randbytes(draw.choice((0, 1, 8, 40)))
            case FieldDescriptor.TYPE_STRING:
                return self._text(field.name)
            case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
                return draw.choice((0.0, -1.0, 1e308, float("nan")))
            case _:
                return self._number(field)

    def _text(self, name: str) -> str:
        draw = self._random
        match name:
            case "topic":
                return draw.choice(TOPICS if draw.random() < 0.8 else NO_TOPICS)
            case "subscription":
                return draw.choice(SUBSCRIPTIONS)
            case "namespace":
                return draw.choice((NAMESPACE, "no/such", "", "/"))
            case _:
                return draw.choice(NAMES)

    def _number(self, field: Any) -> int:
        draw = self._random
        signed = field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
        bits = (
            32
            if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32)
            else 64
        )
        if field.name in ("request_id", "requestId"):
            return self._request()
        if field.name in ("producer_id", "consumer_id") or draw.random() < 0.6:
            return draw.choice(IDS)
        number = draw.choice(NUMBERS) & ((1 << bits) - 1)
        return number - (1 << bits) if signed and number >> (bits - 1) else number
