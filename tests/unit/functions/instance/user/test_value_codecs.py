"""Values of the user's code and bytes: as Pulsar's SDK does it."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pulsar.functions.serde import IdentitySerDe

from engine.functions.instance.user.user_code import UserCodeError
from engine.functions.instance.user.value_codecs import codec_of, identity_decode, identity_encode


def same(first: Any, other: Any) -> bool:
    if isinstance(first, float) and isinstance(other, float) and math.isnan(first):
        return math.isnan(other)
    if isinstance(first, complex) and isinstance(other, complex):
        return repr(first) == repr(other)
    return bool(type(first) is type(other) and first == other)


NUMBERS = some.one_of(some.integers(), some.floats(), some.complex_numbers()).map(str)
TEXTS = some.one_of(
    some.text(), NUMBERS, some.text("0123456789+-.eEjJnaif_() \t\x1f\x85", max_size=6)
)


@given(some.one_of(some.binary(), TEXTS.map(lambda text: text.encode(errors="ignore"))))
def test_bytes_are_decoded_as_by_the_sdk(data: bytes) -> None:
    assert same(identity_decode(data), IdentitySerDe().deserialize(data))


@pytest.mark.parametrize("value", [b"x", "ü", 1, 1.5, 2j])
def test_values_are_encoded_as_by_the_sdk(value: Any) -> None:
    assert identity_encode(value) == IdentitySerDe().serialize(value)


def test_another_value_names_its_type_and_what_can_be_done() -> None:
    with pytest.raises(TypeError, match=r"cannot serialize list: return bytes.*name a schema"):
        identity_encode([1])


def test_json_without_a_class_is_plain_values() -> None:
    codec = codec_of("JSON", "", {})
    assert codec.decode(codec.encode({"a": [1, None]})) == {"a": [1, None]}
    assert codec.schema is None


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users_types.py").write_text(
        "from pulsar.schema import Record, Integer, BytesSchema\n"
        "class Reading(Record):\n    a = Integer()\n"
        "class Reversed:\n"
        "    def serialize(self, value): return value[::-1]\n"
        "    def deserialize(self, data): return data[::-1]\n"
        "class Half:\n    def serialize(self, value): return value\n"
        "class Marked:\n"
        "    def __init__(self, properties): self.mark = properties['mark'].encode()\n"
        "    def encode(self, value): return self.mark + value\n"
        "    def decode(self, data): return data[len(self.mark):]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "users_types", raising=False)


@pytest.mark.usefixtures("user_module")
@pytest.mark.parametrize(("schema", "number"), [("avro", 4), ("JSON", 2)])
def test_a_record_class_is_encoded_and_registered(schema: str, number: int) -> None:
    codec = codec_of(schema, "", {}, "users_types.Reading")
    from users_types import Reading  # type: ignore[import-not-found]

    assert codec.decode(codec.encode(Reading(a=7))).a == 7
    assert codec.schema is not None
    assert (codec.schema.type, b'"Reading"' in codec.schema.schema_data) == (number, True)


@pytest.mark.usefixtures("user_module")
def test_a_serde_class_and_a_schema_class_of_the_user_are_used() -> None:
    assert codec_of("", "users_types.Reversed", {}).decode(b"abc") == b"cba"
    assert codec_of("users_types.Marked", "", {"mark": "m:"}).encode(b"x") == b"m:x"


@pytest.mark.usefixtures("user_module")
def test_the_error_names_the_method_that_a_serde_lacks() -> None:
    with pytest.raises(UserCodeError, match=r"SerDe users_types\.Half has no deserialize"):
        codec_of("", "users_types.Half", {})


def test_a_record_schema_needs_a_class() -> None:
    with pytest.raises(UserCodeError, match="typeClassName names no Record class"):
        codec_of("avro", "", {})


def test_pickle_is_refused_where_others_may_write() -> None:
    with pytest.raises(UserCodeError, match="runs code that is in the message"):
        codec_of("", "serde.PickleSerDe", {}, pickle=False)
    assert codec_of("", "serde.PickleSerDe", {}).decode(b"\x80\x04K\x01.") == 1


def test_pickled_inputs_are_refused_with_the_setting_that_permits_them() -> None:
    with pytest.raises(UserCodeError, match="allowPickle"):
        codec_of("", "serde.PickleSerDe", {}, pickle=False)
    permitted = codec_of("", "serde.PickleSerDe", {}, pickle=True)
    assert permitted.decode(permitted.encode([1])) == [1]
