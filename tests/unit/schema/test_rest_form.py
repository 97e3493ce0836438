"""Schemas in the form of the REST interface, read and returned."""

import json

import pytest

from engine.base.errors import InvalidField, Unprocessable
from engine.schema.kinds import SchemaKind, key_value
from engine.schema.rest_form import definition_text, given


def test_a_key_value_is_returned_as_json_of_both_parts() -> None:
    text = '{"key":{"type":"record","name":"K","fields":[]},"value":""}'
    properties = {"key.schema.type": "AVRO", "value.schema.type": "STRING"}
    schema = given("KEY_VALUE", text, properties)
    parts = key_value(schema)
    assert parts.key.kind is SchemaKind.AVRO
    assert json.loads(parts.key.data)["name"] == "K"
    assert parts.value.data == b""
    assert definition_text(schema) == text


@pytest.mark.parametrize(
    ("kind", "definition", "error", "reason"),
    [
        ("BOGUS", "", InvalidField, "^type: expected one of NONE, STRING"),
        ("AUTO_CONSUME", "", Unprocessable, "client-side"),
        ("AVRO", "{", Unprocessable, "not valid JSON"),
        ("AVRO", "\ud800", InvalidField, "^schema: "),
        ("KEY_VALUE", "x", Unprocessable, "not valid JSON"),
        ("KEY_VALUE", "{}", Unprocessable, "key and value"),
        ("INT8", "x", Unprocessable, "length of schema data should be zero"),
    ],
)
def test_bad_bodies_are_refused_by_name(
    kind: str, definition: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        given(kind, definition, {})
