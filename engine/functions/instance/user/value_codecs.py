"""Values of the user's code from and to bytes: SerDe classes and schemas of Pulsar's Python SDK."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from engine.functions.instance.instance_plan import InputPlan, InstancePlan, OutputPlan
from engine.functions.instance.user.user_code import UserCodeError, load
from engine.wire import pulsar_pb2 as pb

Decode = Callable[[bytes], Any]
Encode = Callable[[Any], bytes]

IDENTITY = ("", "serde.IdentitySerDe", "pulsar.functions.serde.IdentitySerDe", "IdentitySerDe")
_NUMBERLIKE = frozenset("0123456789+-.(nNiIjJ_ \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0")
"""First characters of what int, float or complex may accept, in ASCII."""


class Codec:
    """Conversion of one topic's values to bytes and back. ``schema``: what its producers register, None without one."""

    __slots__ = ("decode", "encode", "schema")

    def __init__(self, decode: Decode, encode: Encode, schema: pb.Schema | None = None) -> None:
        self.decode = decode
        self.encode = encode
        self.schema = schema


def identity_decode(data: bytes) -> Any:
    """Return an int, float, complex or str where the bytes are the text of one, tried in this order, else the bytes.

    The same as the SDK's IdentitySerDe, which raises three exceptions for every other text.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    first = text[:1]
    if first and first < "\x80" and first not in _NUMBERLIKE:
        return text
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def identity_encode(value: Any) -> bytes:
    """Return the bytes of bytes, text and numbers. Raises TypeError."""
    kind = type(value)
    if kind is bytes:
        return bytes(value)
    if kind is str:
        return str(value).encode()
    if kind in (int, float, complex):
        return str(value).encode()
    raise TypeError(
        f"IdentitySerDe cannot serialize {kind.__name__}: return bytes, str, int, float or complex, "
        "or name a schema or SerDe class"
    )


def codec_of(
    schema: str,
    serde: str,
    properties: Mapping[str, str],
    type_class: str = "",
    *,
    pickle: bool = True,
) -> Codec:
    """Return the codec of a topic. ``pickle`` False: PickleSerDe is refused, as for inputs by default. Raises
    UserCodeError."""
    if schema and schema.lower() not in ("bytes", "none"):
        return _schema_codec(schema, properties, type_class)
    if serde in IDENTITY:
        return Codec(identity_decode, identity_encode)
    if serde.endswith("PickleSerDe") and not pickle:
        raise UserCodeError(
            "PickleSerDe runs code that is in the message: where no other may publish to the input, set "
            "allowPickle to true in userConfig"
        )
    name = f"pulsar.functions.{serde}" if serde.startswith("serde.") else serde
    built = load(name)()
    for method in ("serialize", "deserialize"):
        if not callable(getattr(built, method, None)):
            raise UserCodeError(f"SerDe {serde} has no {method}")
    return Codec(built.deserialize, built.serialize)


def input_codec(plan: InstancePlan, spec: InputPlan) -> Codec:
    """Return the codec of an input. Raises UserCodeError."""
    return codec_of(
        spec.schema,
        spec.serde,
        spec.schema_properties,
        spec.type_class,
        pickle=plan.user_config.get("allowPickle") is True,
    )


def output_codec(output: OutputPlan) -> Codec:
    """Return the codec of the output. Raises UserCodeError."""
    return codec_of(output.schema, output.serde, output.schema_properties, output.type_class)


def _schema_codec(schema: str, properties: Mapping[str, str], type_class: str) -> Codec:
    kind = schema.lower()
    record = load(type_class) if type_class and kind not in ("string", "bytes") else None
    if kind == "json" and record is None:
        return Codec(json.loads, lambda value: json.dumps(value).encode())
    if kind == "string":
        text = pb.Schema(name="STRING", type=pb.Schema.Type.String, schema_data=b"")
        return Codec(lambda data: data.decode(), lambda value: str(value).encode(), text)
    if kind in ("json", "avro"):
        if record is None:
            raise UserCodeError(f"schema {schema}: typeClassName names no Record class")
        # Slow to import, seldom needed.
        from pulsar import schema as sdk

        built = (sdk.JsonSchema if kind == "json" else sdk.AvroSchema)(record)
    else:
        built = _custom(schema, record, properties)
    return Codec(built.decode, built.encode, _registered(built))


def _custom(name: str, record: Any, properties: Mapping[str, str]) -> Any:
    """Return an object of the user's schema class, which takes nothing, the record class or the properties, or both."""
    schema_class = load(name)
    count = len(inspect.signature(schema_class).parameters)
    if count == 0:
        return schema_class()
    if count == 1:
        return schema_class(record if record is not None else dict(properties))
    return schema_class(record, dict(properties))


def _registered(schema: Any) -> pb.Schema | None:
    """Return what a producer registers for a schema of the SDK; None where it states none."""
    info = schema.schema_info() if hasattr(schema, "schema_info") else None
    if info is None:
        return None
    return pb.Schema(
        name=info.name(),
        type=int(info.schema_type()),  # type: ignore[arg-type]  # its numbers are those of the wire
        schema_data=info.schema().encode(),
    )
