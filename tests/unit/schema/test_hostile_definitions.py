"""Definitions that no honest client sends: each is harmless, or is refused with a text of bounded length."""

import base64
import json
import time
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from engine.schema.avro_rules import STEPS_MAX
from engine.schema.compatibility import check, meaning, refused, same
from engine.schema.kinds import (
    TEXT_HEAD,
    TEXT_TAIL,
    InvalidSchemaError,
    Schema,
    SchemaKind,
    joined,
)
from engine.tenancy.strategy import Strategy

SHOWN_MAX = TEXT_HEAD + TEXT_TAIL + 200
DEEP = "[" * 900 + "]" * 900
FINISHES_S = 20.0
"""CPU seconds; without a bound some of these take years."""


def record(*fields: Any, name: str = "R", **more: Any) -> bytes:
    return json.dumps({"type": "record", "name": name, "fields": fields, **more}).encode()


def of_field(text: str) -> bytes:
    return b'{"type":"record","name":"R","fields":[%s]}' % text.encode()


DEFINITIONS = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'"\xff"',
    "UTF-16": record().decode().encode("utf-16"),
    "brackets": b"[" * 100_000,
    "objects": b'{"type":' * 50_000,
    "types within types": b'{"type":"array","items":' * 400 + b'"int"' + b"}" * 400,
    "a deep default": of_field(f'{{"name":"a","type":"int","default":{DEEP}}}'),
    "a deep attribute": b'{"type":"record","name":"R","fields":[],"x":%s}' % DEEP.encode(),
    "a deep default of an enum": b'{"type":"enum","name":"E","symbols":["A"],"default":%s}'
    % DEEP.encode(),
    "half a character as a type": of_field(r'{"name":"a","type":"\ud800"}'),
    "half a character as a name": of_field(r'{"name":"\ud800","type":"int"}'),
    "half a character in words": record(doc="\ud800", x="\udfff"),
    "Cyrillic": record({"name": "имя", "type": "int"}),
    "a slash": record({"name": "a/b", "type": "int"}),
    "dots": record({"name": "..", "type": "int"}),
    "a long name": record({"name": "a" * 10_240, "type": "int"}),
    "a long type": record({"name": "a", "type": "x" * 100_000}),
    "a long wrong name": record({"name": "-" * 100_000, "type": "int"}),
    "a long default": record({"name": "a", "type": "int", "default": "x" * 500_000}),
    "a number of 5,000 digits": of_field('{"name":"a","type":"int","default":%s}' % ("9" * 5000)),
    "a number of 4,000 digits": of_field('{"name":"a","type":"long","default":%s}' % ("9" * 4000)),
    "infinity": of_field('{"name":"a","type":"long","default":Infinity}'),
    "a size without end": b'{"type":"fixed","name":"F","size":1e999}',
    "itself": record({"name": "a", "type": "R"}),
    "itself by default": record({"name": "a", "type": "R", "default": {}}),
    "a list for a name": record(name=["R"]),  # type: ignore[arg-type]
    "null": b"null",
}


def descended(calls: int, verdicts: Any) -> None:
    """Call ``verdicts`` at a depth of ``calls`` calls, where little of the stack remains."""
    if calls:
        descended(calls - 1, verdicts)
    else:
        verdicts()


@pytest.mark.parametrize("depth", [0, 150])
@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize(
    "kind",
    [
        SchemaKind.AVRO,
        SchemaKind.JSON,
        SchemaKind.PROTOBUF,
        SchemaKind.PROTOBUF_NATIVE,
        SchemaKind.STRING,
        SchemaKind.INT32,
        SchemaKind.KEY_VALUE,
    ],
)
def test_each_refusal_is_a_text_of_bounded_length(kind: SchemaKind, name: str, depth: int) -> None:
    schema = Schema(kind, DEFINITIONS[name], {})
    spaced = Schema(kind, schema.data + b" ", {})
    other = Schema(kind, record({"name": "c", "type": "string", "default": ""}), {})

    def verdicts() -> None:
        try:
            check(schema)
        except InvalidSchemaError as error:
            assert len(str(error).encode()) < 4 * SHOWN_MAX
        assert same(schema, schema)
        assert len(meaning(schema)) in (0, 32)
        for strategy in Strategy:
            for old in (other, spaced):
                why = refused(schema, [old], strategy)
                assert why is None or len(why.encode()) < 4 * SHOWN_MAX

    descended(depth, verdicts)


def test_a_long_place_leaves_the_reason_readable() -> None:
    data = record({"name": "a" * 10_240, "type": "nope"})
    with pytest.raises(InvalidSchemaError, match=r"aaa … .*no such type: nope$"):
        check(Schema(SchemaKind.AVRO, data, {}))


def nested_defaults(levels: int) -> bytes:
    """Return a record whose default holds two of the next, and so on: 2 ** levels records in 4 KB."""
    inner: Any = {"type": "record", "name": "R0", "fields": []}
    for level in range(1, levels):
        fields = [
            {"name": "a", "type": inner, "default": {}},
            {"name": "b", "type": f"R{level - 1}", "default": {}},
        ]
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    return record({"name": "q", "type": inner, "default": {}})


def test_the_work_of_a_comparison_is_bounded() -> None:
    began = time.process_time()
    new = Schema(SchemaKind.AVRO, nested_defaults(45), {})
    why = refused(new, [Schema(SchemaKind.AVRO, record(), {})], Strategy.BACKWARD)
    assert why is not None
    assert f"no answer after {STEPS_MAX} comparisons" in why
    assert time.process_time() - began < FINISHES_S


def union(count: int, prefix: str, *more: Any) -> bytes:
    """Return a union of ``more`` and of records that cannot read each other."""
    branches = [
        {"type": "record", "name": f"{prefix}{i}", "fields": [{"name": prefix, "type": "int"}]}
        for i in range(count)
    ]
    return record({"name": "u", "type": [*branches, *more]})


def test_wide_unions_are_bounded_too() -> None:
    began = time.process_time()
    old = Schema(SchemaKind.AVRO, union(1000, "a"), {})
    reads_all = {"type": "record", "name": "z", "fields": []}
    new = Schema(SchemaKind.AVRO, union(1000, "b", reads_all), {})
    why = refused(new, [old], Strategy.BACKWARD)
    assert why is not None
    assert "no answer after" in why
    assert time.process_time() - began < FINISHES_S


def test_many_files_that_import_each_other_in_a_row_are_sorted_at_once() -> None:
    count = 20_000
    files = descriptor_pb2.FileDescriptorSet(
        file=[
            descriptor_pb2.FileDescriptorProto(
                name=f"f{i}",
                dependency=[f"f{i + 1}"] if i + 1 < count else [],
                message_type=[descriptor_pb2.DescriptorProto(name=f"M{i}")],
            )
            for i in range(count)
        ]
    )
    document = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": "M0",
        "rootFileDescriptorName": "f0",
    }
    began = time.process_time()
    check(Schema(SchemaKind.PROTOBUF_NATIVE, json.dumps(document).encode(), {}))
    assert time.process_time() - began < FINISHES_S


@pytest.mark.parametrize(
    ("properties", "data"),
    [
        ({"key.schema.type": "\ud800"}, joined(b"", b"")),
        ({"key.schema.type": "N" * 100_000}, joined(b"", b"")),
        ({"key.schema.type": "AVRO"}, joined(b"{", b"")),
        ({"key.schema.properties": DEEP * 100}, joined(b"", b"")),
        ({"value.schema.properties": '{"a": 1}'}, joined(b"", b"")),
        ({}, b"\x7f\xff\xff\xff"),
        ({}, b"\x00"),
    ],
)
def test_parts_of_a_key_value_are_judged_too(properties: dict[str, str], data: bytes) -> None:
    with pytest.raises(InvalidSchemaError) as refusal:
        check(Schema(SchemaKind.KEY_VALUE, data, properties))
    assert len(str(refusal.value).encode()) < 4 * SHOWN_MAX
