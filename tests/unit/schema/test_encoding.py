"""Texts encoded by a schema: the bytes are those that Apache's broker stores, and a refusal names the field."""

import json
from typing import Any

import pytest

from engine.schema.decoding import decoder
from engine.schema.encoding import Encoded, UnencodableError, encoder
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind
from tests.unit.schema.test_decoding import key_value, of

R: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "u", "type": ["null", "string"], "default": None},
        {"name": "b", "type": "bytes", "default": ""},
    ],
}


def payload(schema: Schema, text: str) -> bytes:
    return encoder(schema)(text, None).payload


def refused(schema: Schema, text: str, key: str | None = None) -> str:
    with pytest.raises(UnencodableError) as error:
        encoder(schema)(text, key)
    return str(error.value)


# The bytes were stored by Apache Pulsar 4.0.8 for the same texts, where it takes them.
@pytest.mark.parametrize(
    ("kind", "text", "data"),
    [
        ("NONE", "ab", "6162"),
        ("STRING", "hé", "68c3a9"),
        ("BOOLEAN", "TRUE", "01"),
        ("BOOLEAN", "false", "00"),
        ("INT8", "-128", "80"),
        ("INT16", "+256", "0100"),
        ("INT32", "5", "00000005"),
        ("INT64", "-1", "ffffffffffffffff"),
        ("FLOAT", "1.5", "3fc00000"),
        ("DOUBLE", "NaN", "7ff8000000000000"),
        ("DOUBLE", "-1e3", "c08f400000000000"),
        ("DATE", "2021-01-02", "00000176c064cc00"),
        ("DATE", "1609545600000", "00000176c064cc00"),
        ("TIME", "1000", "00000000000003e8"),
        ("TIMESTAMP", "1970-01-01T00:00:01Z", "00000000000003e8"),
        ("INSTANT", "2021-01-01T00:00:00Z", "000000005fee660000000000"),
        ("INSTANT", "2021-01-01T02:00:00.5+02:00", "000000005fee66001dcd6500"),
        ("LOCAL_DATE", "2021-01-01", "00000000000048c4"),
        ("LOCAL_TIME", "10:00:00.5", "000020be0503a500"),
        ("LOCAL_DATE_TIME", "2021-01-01T10:00:00", "00000000000048c4000020bde7364000"),
    ],
)
def test_texts_of_kinds_without_definition_have_apaches_bytes(
    kind: str, text: str, data: str
) -> None:
    assert payload(of(SchemaKind(kind)), text).hex() == data


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BOOLEAN", "yes"),
        ("INT8", "300"),
        ("INT32", " 5"),
        ("INT32", "1_0"),
        ("INT32", ""),
        ("INT64", "9" * 5000),
        ("FLOAT", "1e39"),
        ("DOUBLE", "1e400"),
        ("DOUBLE", "inf"),
        ("DATE", "Jan 2, 2021"),
        ("TIME", "1" * 25),
        ("INSTANT", "2021-01-01T00:00:00"),
        ("LOCAL_DATE", "2021-02-30"),
        ("LOCAL_TIME", "24:00"),
        ("LOCAL_DATE_TIME", "2021-01-01"),
    ],
)
def test_a_text_that_is_no_value_is_refused(kind: str, text: str) -> None:
    assert refused(of(SchemaKind(kind)), text) == f"payload: {text[:80]!r} is no {kind}"


def test_a_string_has_the_charset_of_its_schema() -> None:
    assert payload(of(SchemaKind.STRING, __charset="UTF-16BE"), "a").hex() == "0061"
    assert "US-ASCII" in refused(of(SchemaKind.STRING, __charset="US-ASCII"), "é")
    assert "EBCDIC" in refused(of(SchemaKind.STRING, __charset="EBCDIC"), "e")


def test_avro_has_apaches_bytes() -> None:
    schema = of(SchemaKind.AVRO, R)
    text = '{"a":1,"u":{"string":"x"},"b":"\\u00ff"}'
    assert payload(schema, text).hex() == "0202027802ff"
    assert payload(schema, '{"b":"","zz":1,"u":null,"a":1}').hex() == "020000"


ALL: dict[str, Any] = {
    "type": "record",
    "name": "All",
    "namespace": "n",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "t", "type": "boolean"},
        {"name": "s", "type": "string"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 2}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "r", "type": {"type": "array", "items": ["null", "All"]}},
    ],
}


def test_every_type_of_avro_is_decoded_to_what_was_given() -> None:
    inner = {
        "i": -(1 << 31),
        "l": (1 << 63) - 1,
        "f": 0.5,
        "d": "-Infinity",
        "t": True,
        "s": "é",
        "e": "B",
        "x": "\x00\xff",
        "m": {"k": -1},
        "r": [],
    }
    schema = of(SchemaKind.AVRO, ALL)
    given = {**inner, "m": {}, "r": [None, {"n.All": inner}]}
    shown = {**inner, "x": {"base64": "AP8="}}
    decoded = decoder(schema).value(payload(schema, json.dumps(given)))
    assert decoded == {**shown, "m": {}, "r": [None, shown]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"a": 1 << 31}, "payload.a: 2147483648 is beyond the range of int"),
        ({"a": True}, "payload.a: true is no int"),
        ({"a": 1.0}, "payload.a: 1.0 is no int"),
        ({"a": []}, "payload.a: an array is no int"),
        ({"u": {"a": 1, "b": 2}}, "payload.u: an object is none of null"),
        ({"u": "x"}, 'payload.u: "x" is none of null, {"string": …}'),
        ({"u": {"string": 1}}, "payload.u.string: 1 is no string"),
        ({"u": {"string": "\ud800"}}, "payload.u.string: has half of a character"),
        ({"b": "\u0100"}, "payload.b: no byte: 'Ā'"),
    ],
)
def test_a_wrong_avro_value_is_refused_by_the_name_of_its_field(
    change: dict[str, Any], reason: str
) -> None:
    text = json.dumps({"a": 1, "u": None, "b": "", **change})
    assert refused(of(SchemaKind.AVRO, R), text).startswith(reason)


def test_a_container_is_no_fraction() -> None:
    fields = [{"name": "d", "type": "double"}]
    schema = of(SchemaKind.AVRO, {"type": "record", "name": "D", "fields": fields})
    assert refused(schema, '{"d":[]}') == "payload.d: an array is no double"
    assert refused(schema, '{"d":1' + "0" * 400 + "}").endswith("is beyond the range of double")
    deep = "[" * 900 + "]" * 900
    assert refused(schema, f'{{"d":{deep}}}') == "payload.d: an array is no double"


def test_avro_wants_every_field_and_valid_json_within_bounds() -> None:
    schema = of(SchemaKind.AVRO, R)
    assert refused(schema, '{"a":1,"u":null}') == "payload.b: is missing"
    assert refused(schema, "junk").startswith("payload: not valid JSON")
    assert refused(schema, '{"a":NaN}').startswith("payload: not valid JSON")
    assert refused(schema, "[" * 100_000) == "payload: not valid JSON: too deep"
    nested = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    deep = '{"n":{"N":' * 200 + '{"n":null}' + "}}" * 200
    assert "values within values" in refused(of(SchemaKind.AVRO, nested), deep)


def test_json_is_sent_unchanged() -> None:
    schema = of(SchemaKind.JSON, R)
    text = '{"zz": 1.10, "a":12345678901234567890}'
    assert payload(schema, text) == text.encode()
    assert refused(schema, "junk").startswith("payload: not valid JSON")
    assert refused(schema, "[" * 100_000) == "payload: not valid JSON: too deep"


def test_the_key_of_a_key_value_is_separate_or_in_the_payload() -> None:
    apart = encoder(key_value(of(SchemaKind.INT32), of(SchemaKind.STRING), "SEPARATED"))
    assert apart("v", "5") == Encoded(b"v", b"\0\0\0\5")
    assert apart("v", None) == Encoded(b"v", None)
    schema = key_value(of(SchemaKind.INT32), of(SchemaKind.STRING))
    encoded = encoder(schema)("v", "5")
    assert encoded.key is None
    assert decoder(schema).value(encoded.payload) == {"key": 5, "value": "v"}
    encoded = encoder(schema)("v", None)
    assert decoder(schema).value(encoded.payload) == {"key": None, "value": "v"}
    assert refused(schema, "v", "five") == "key: 'five' is no INT32"


@pytest.mark.parametrize("kind", [SchemaKind.PROTOBUF, SchemaKind.PROTOBUF_NATIVE])
def test_kinds_that_cannot_be_written_as_text_are_refused(kind: SchemaKind) -> None:
    with pytest.raises(InvalidSchemaError, match=kind.value):
        encoder(of(kind, b""))
