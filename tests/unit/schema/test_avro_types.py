"""Definitions that Apache Pulsar 4.0.8 accepted and refused; refusals name the place of the mistake."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.schema.avro_types import DEPTH_MAX, canonical, parse
from engine.schema.kinds import InvalidSchemaError

VERDICTS: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "golden/schemas/verdicts.json").read_text()
)


@pytest.mark.parametrize(
    "case", VERDICTS["same"], ids=lambda case: f"{case['what']}-{case['type']}"
)
def test_the_canonical_form_distinguishes_the_versions_that_apache_does(case: Any) -> None:
    first, second = (canonical(parse(case[key].encode())) for key in ("first", "second"))
    assert (first != second) == (case["version"] == 1)


def record(**more: Any) -> bytes:
    field = {"name": "a", "type": "int"} | more
    return json.dumps({"type": "record", "name": "n.R", "fields": [field]}).encode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "not valid JSON"),
        (b"5", "expected a name, an object or an array"),
        (record(type="Nope"), "^a: no such type: Nope"),
        (record(name="a-b"), "a-b: a name is letters"),
        (record(type=["int", "int"]), "^a: int twice in a union"),
        (record(type=["int", ["null"]]), "^a: a union directly within a union"),
        (record(type={"type": "enum", "name": "E", "symbols": ["A", "A"]}), "^a: symbols"),
        (record(type={"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}), "default"),
        (record(type={"type": "fixed", "name": "F", "size": -1}), "^a: size"),
        (record(type={"type": "map"}), "^a: values: required"),
        (record(type={"type": "record", "name": "n.R", "fields": []}), "n.R is defined twice"),
        (record(type="double", default="x"), "^a: default: not a number"),
        (record(order="sideways"), "^a: order"),
        (record(aliases="b"), "^a: aliases"),
    ],
)
def test_a_refusal_names_the_place_of_the_mistake(text: bytes, message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        parse(text)


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 100_000])
def test_depth_is_bounded(depth: int) -> None:
    with pytest.raises(InvalidSchemaError):
        parse(b'{"type":"array","items":' * depth + b'"int"' + b"}" * depth)


def test_names_are_found_in_their_namespace() -> None:
    inner = {"type": "record", "name": "Q", "fields": [{"name": "r", "type": ["null", "R"]}]}
    whole = parse(record(type=inner))
    q = whole.fields[0].type
    assert (whole.name, whole.short_name, q.name) == ("n.R", "R", "n.Q")
    assert q.fields[0].type.types[1] is whole
