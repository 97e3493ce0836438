"""One Avro definition read by another: Apache Pulsar 4.0.8's verdicts on 400 random pairs; refusals name the field."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.schema.avro_rules import unreadable
from engine.schema.avro_types import parse

PAIRS: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "golden/schemas/pairs.json").read_text()
)["pairs"]


def verdict(writer: Any, reader: Any) -> str | None:
    return unreadable(parse(json.dumps(writer).encode()), parse(json.dumps(reader).encode()))


def test_the_verdicts_are_apaches() -> None:
    assert len({pair["reads"] for pair in PAIRS}) == 2
    wrong = [p for p in PAIRS if (verdict(p["writer"], p["reader"]) is None) != p["reads"]]
    assert wrong == []


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(name: str, of: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


INNER = {"type": "record", "name": "Q", "fields": [field("x", "int")]}


@pytest.mark.parametrize(
    ("writer", "reader", "words"),
    [
        (record(), record(field("a", "int")), "field a: is required"),
        (record(), record(field("a", "int", default="x")), "field a: the default 'x' is no int"),
        (
            record(field("a", "long")),
            record(field("a", "int")),
            "field a: long cannot be read as int",
        ),
        (
            record(field("q", INNER)),
            record(field("q", INNER | {"fields": [field("x", "string")]})),
            "field q.x: int cannot be read as string",
        ),
        (record(field("a", ["null", "int"])), record(field("a", "int")), "field a: null cannot be"),
        (record(field("a", "int")), record(field("a", ["null", "string"])), "is none of"),
    ],
)
def test_a_refusal_names_the_field(writer: Any, reader: Any, words: str) -> None:
    refusal = verdict(writer, reader)
    assert refusal is not None
    assert words in refusal


def test_a_record_within_itself_ends() -> None:
    node = record(field("next", ["null", "R"]), field("v", "int"))
    longer = record(field("next", ["null", "R"]), field("v", "long"))
    assert verdict(node, longer) is None
    assert verdict(longer, node) is not None


def test_a_default_that_never_ends_is_none() -> None:
    endless = {"type": "record", "name": "Q", "fields": [field("q", "Q")]}
    inner = json.loads(json.dumps(endless))
    inner["fields"][0]["default"] = {}
    assert verdict(record(), record(field("a", inner, default={}))) is not None


def test_aliases_lead_from_the_old_name_to_the_new() -> None:
    renamed = record(field("b", "int", aliases=["a"]), name="S", aliases=["R"])
    assert verdict(record(field("a", "int")), renamed) is None
