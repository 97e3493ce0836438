"""Definitions, sameness and strategies, held against what Apache Pulsar 4.0.8 answered."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.schema.compatibility import KEPT_BYTES_MAX, check, refused, same
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind, joined
from engine.tenancy.strategy import Strategy
from tests.unit.schema.test_native_types import definition, files

VERDICTS: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "golden/schemas/verdicts.json").read_text()
)
KINDS = {kind.value for kind in SchemaKind}
# "null" as a JSON definition is taken by Apache, and is none.
DEFINITIONS = [
    case
    for case in VERDICTS["definitions"]
    if case["type"] in KINDS and (case["type"], case["definition"]) != ("JSON", "null")
]


def avro(*fields: Any) -> bytes:
    named = [{"name": name, "type": of} for name, of in fields]
    return json.dumps({"type": "record", "name": "R", "fields": named}).encode()


def accepted(schema: Schema) -> bool:
    try:
        check(schema)
    except InvalidSchemaError:
        return False
    return True


def test_definitions_are_taken_and_refused_as_by_apache() -> None:
    assert len(DEFINITIONS) > 100
    wrong = [
        case
        for case in DEFINITIONS
        if accepted(Schema(SchemaKind(case["type"]), case["definition"].encode(), {}))
        != (case["status"] == 200)
    ]
    assert wrong == []


def test_strings_of_all_clients_are_one_version() -> None:
    python, java = Schema(SchemaKind.STRING, b"null", {}), Schema(SchemaKind.STRING, b"", {})
    check(python)
    assert same(python, java)  # two at Apache


def test_the_words_begin_as_apaches() -> None:
    with pytest.raises(InvalidSchemaError, match="AVRO schema: a: no such"):
        check(Schema(SchemaKind.AVRO, avro(("a", "Nope")), {}))


@pytest.mark.parametrize(
    "case", VERDICTS["same"], ids=lambda case: f"{case['what']}-{case['type']}"
)
def test_sameness_is_apaches(case: Any) -> None:
    first, second = (
        Schema(SchemaKind(case["type"]), case[key].encode(), {}) for key in ("first", "second")
    )
    assert same(first, second) == (case["version"] == 0)


def answers(definitions: list[bytes], strategy: Strategy) -> list[int]:
    """Register these definitions in turn; return the answers: versions, or 409."""
    versions: list[Schema] = []
    out: list[int] = []
    for data in definitions:
        schema = Schema(SchemaKind.AVRO, data, {})
        if refused(schema, versions, strategy) is None:
            out.append(len(versions))
            versions.append(schema)
        else:
            out.append(409)
    return out


@pytest.mark.parametrize("strategy", [s for s in Strategy if s is not Strategy.UNDEFINED])
def test_sequences_of_versions_are_judged_as_by_apache(strategy: Strategy) -> None:
    cases = [case for case in VERDICTS["sequences"] if case["strategy"] == strategy.value]
    texts = [text.encode() for text in VERDICTS["sequence_definitions"]]
    assert len(cases) >= 50
    for case in cases:
        assert answers([texts[i] for i in case["definitions"]], strategy) == case["answers"], case


def test_another_kind_follows_under_always_compatible_alone() -> None:
    old, new = Schema(SchemaKind.STRING, b"", {}), Schema(SchemaKind.INT32, b"", {})
    for strategy in Strategy:
        why = refused(new, [old], strategy)
        if strategy is Strategy.ALWAYS_COMPATIBLE:
            assert why is None
        else:
            assert why == "Incompatible schema: exists schema type STRING, new schema type INT32"


def test_a_key_value_is_judged_by_both_parts() -> None:
    properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}

    def pair(value: bytes, **more: str) -> Schema:
        return Schema(SchemaKind.KEY_VALUE, joined(b"", value), properties | more)

    old = pair(avro(("a", "int")))
    assert refused(pair(avro(("a", "int"))), [old], Strategy.FULL) is None
    why = refused(pair(avro(("a", "string"))), [old], Strategy.FULL)
    assert why is not None
    assert "value: the new schema cannot read earlier data: field a" in why
    why = refused(pair(b"", **{"value.schema.type": "STRING"}), [old], Strategy.FULL)
    assert why is not None
    assert "value: was AVRO, is STRING" in why


def test_a_key_values_parts_decide_whether_it_is_a_known_version() -> None:
    """Apache compares the bytes alone: of (STRING, STRING) and (STRING, INT32) they are the same, and it gives the
    second's producers the first's version; and a blank more in a part is another version."""

    def pair(value: str, data: bytes = b"", key: str = "STRING") -> Schema:
        properties = {"key.schema.type": key, "value.schema.type": value}
        return Schema(SchemaKind.KEY_VALUE, joined(b"", data), properties)

    text = avro(("a", "int"))
    assert not same(pair("INT32"), pair("STRING"))
    assert not same(pair("JSON", text), pair("AVRO", text))
    assert same(pair("AVRO", text), pair("AVRO", json.dumps(json.loads(text), indent=1).encode()))
    why = refused(pair("INT32"), [pair("STRING")], Strategy.FULL)
    assert why is not None
    assert "value: was STRING, is INT32" in why
    broken = Schema(SchemaKind.KEY_VALUE, b"\0", {})
    assert same(broken, broken)
    assert not same(broken, pair("STRING"))


def test_a_protobuf_definition_follows_any_but_where_none_may() -> None:
    """Skip Avro's rules, which would refuse fields that protobuf itself reads."""
    old, new = (Schema(SchemaKind.PROTOBUF, avro(("a", of)), {}) for of in ("int", "string"))
    refusing = [s for s in Strategy if refused(new, [old], s) is not None]
    assert refusing == [Strategy.UNDEFINED, Strategy.ALWAYS_INCOMPATIBLE]


def test_a_native_protobuf_keeps_its_root_message() -> None:
    def native(name: str) -> Schema:
        of = files("outer", "imported")
        of.file[0].message_type[0].name = name
        return Schema(
            SchemaKind.PROTOBUF_NATIVE, definition(of, rootMessageTypeName=f"p.{name}"), {}
        )

    assert refused(native("Order"), [native("Order")], Strategy.FULL) is None
    assert refused(native("Other"), [native("Order")], Strategy.FULL) is not None


def test_a_json_schema_of_old_clients_may_become_an_avro_one() -> None:
    old = Schema(SchemaKind.JSON, b'{"type":"object","id":"urn:a","properties":{}}', {})
    check(old)
    assert refused(Schema(SchemaKind.JSON, avro(("a", "int")), {}), [old], Strategy.FULL) is None
    other = Schema(SchemaKind.JSON, b'{"type":"object","id":"urn:b","properties":{}}', {})
    assert refused(other, [old], Strategy.FULL) is not None


def test_a_definition_of_a_megabyte_is_judged() -> None:
    many = [(f"f{i}", "int") for i in range(30_000)]
    old, new = (Schema(SchemaKind.AVRO, avro(*of), {}) for of in (many, [*many, ("g", "int")]))
    assert len(old.data) > 1_000_000 > KEPT_BYTES_MAX
    why = refused(new, [old], Strategy.BACKWARD)
    assert why is not None
    assert "field g: is required" in why
