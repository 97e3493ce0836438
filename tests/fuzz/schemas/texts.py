"""Texts that are encoded by a schema, and the bodies of REST produce that hold them: accepted texts can be decoded."""

import json
from base64 import b64encode
from functools import partial

from engine.base.errors import InvalidField, Unprocessable
from engine.schema.decoding import decoder
from engine.schema.encoding import UnencodableError, encoder
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind
from engine.schema.values.primitive_values import PRIMITIVE
from gateway.http.json_bodies import decode_body
from gateway.rest.produce.request import parse_request
from tests.fuzz.schemas.messages import FIELDS, INLINE, record
from tests.fuzz.target import Target

VALUE = {
    "id": 5,
    "at": -1,
    "day": 3,
    "price": "\x01\xff",
    "share": 0.5,
    "kind": "B",
    "none": [None],
    "by": {"a": None, "b": {"string": "x"}, "c": {"double": 1}},
    "next": None,
    "more": [],
}
AVRO = [json.dumps({**VALUE, "next": {"R": VALUE}, "more": [VALUE]}), json.dumps(VALUE)]
JSON = ['{"id": 1.5e3, "by": ["\\u00e4"]}', "5", '""']
PRIMITIVES = ["5", "-1.5e3", "true", "NaN", "2021-01-02", "10:00:00.5", "2021-01-01T02:00:00+02:00"]
WORDS = [b"[" * 300, b"1e999", b"\\ud800", b"null", b'{"R":', b"\xff", b"NaN", b"-", b"T", b":"]


def text_of(data: bytes) -> str:
    """Return ``data`` as text, perhaps with half of a surrogate pair, which JSON can express."""
    return data.decode(errors="surrogateescape")


def encode(schema: Schema, data: bytes) -> None:
    payload, key = encoder(schema)(text_of(data), text_of(data))
    decoder(schema).value(payload, key)


def encode_any(data: bytes) -> None:
    """Encode by all kinds without a definition; most refuse it."""
    taken = 0
    for kind in sorted(PRIMITIVE, key=lambda kind: kind.value):
        try:
            encode(Schema(kind, b"", {}), data)
            taken += 1
        except UnencodableError:
            pass
    if not taken:
        raise UnencodableError("", "no kind has it")


def request(data: bytes) -> None:
    body = decode_body(data)
    if not isinstance(body, dict):
        return
    parsed = parse_request(body, 1_700_000_000_000)
    encode_one = encoder(parsed.schema)
    for message in parsed.messages:
        encode_one(message.payload, message.key)


def body_of(schema: Schema, *payloads: str) -> bytes:
    info = {"type": schema.kind.value, "schema": b64encode(schema.data).decode(), "properties": {}}
    message = {"properties": {"a": "b"}, "eventTime": "5", "deliverAfterMs": 9, "sequenceId": 0}
    body = {
        "schemaVersion": -1,
        "keySchema": '{"type":"INT32","schema":""}',
        "valueSchema": json.dumps(info),
        "producerName": "p",
        "messages": [{"payload": payload, "key": "5", **message} for payload in payloads],
    }
    return json.dumps(body).encode()


def target(name: str, texts: list[str], schema: Schema) -> Target:
    seeds = [text.encode() for text in texts]
    return Target(name, partial(encode, schema), seeds, (UnencodableError,), words=WORDS)


TEXTS: tuple[Target, ...] = (
    target("texts encoded as AVRO", AVRO, record(FIELDS)),
    target("texts encoded as JSON", JSON, record(FIELDS, SchemaKind.JSON)),
    target("texts encoded as KEY_VALUE", AVRO, INLINE),
    Target(
        "texts encoded as primitives",
        encode_any,
        [text.encode() for text in PRIMITIVES],
        (UnencodableError,),
        words=WORDS,
    ),
    Target(
        "bodies of REST produce",
        request,
        [
            body_of(record(FIELDS), *AVRO),
            body_of(Schema(SchemaKind.STRING, b"", {}), "a", "b"),
            b'{"messages":[{"payload":5,"disableReplication":true,"replicationClusters":["c"]}]}',
        ],
        (InvalidField, Unprocessable, InvalidSchemaError, UnencodableError),
        words=[*WORDS, b'"sequenceId":1', b'"type":"KEY_VALUE"', b"9" * 400],
    ),
)
