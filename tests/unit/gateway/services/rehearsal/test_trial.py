"""Messages tried with a candidate: what decodes, what breaks where and whose it is."""

import json
from typing import Any

import pytest

from engine.schema.kinds import Schema, SchemaKind
from gateway.services.rehearsal import trial
from gateway.services.rehearsal.opening import OpenedMessage
from gateway.services.rehearsal.trial import Trial


def avro(*fields: dict[str, Any]) -> Schema:
    document = {"type": "record", "name": "R", "fields": list(fields)}
    return Schema(SchemaKind.AVRO, json.dumps(document).encode(), {})


ID = {"name": "id", "type": "int"}
NOTE = {"name": "note", "type": "string"}
WITH_DEFAULT = avro(ID, NOTE | {"default": "none"})
ONE, TWO = avro(ID), avro(ID, NOTE)


def message(number: int, version: int | None, content: bytes, producer: str = "p") -> OpenedMessage:
    return OpenedMessage(f"1:{number}", producer, 1_000 + number, version, None, content)


def tried(candidate: Schema, *messages: OpenedMessage, **stored: Any) -> Trial:
    made = Trial(candidate, stored.get("stored", {0: ONE, 1: TWO}))
    made.run(messages)
    return made


def test_a_dropped_default_is_found_with_the_field_and_the_exact_count() -> None:
    messages = [message(n, 0, b"\x02", "old") for n in range(7)]
    messages += [message(n, 1, b"\x04\x06abc", "new") for n in range(7, 10)]
    fine = tried(WITH_DEFAULT, *messages)
    assert (fine.decoded, fine.failed, fine.failures) == (10, 0, [])
    broken = tried(TWO, *messages)
    assert (broken.decoded, broken.failed) == (3, 7)
    (failure,) = broken.failures
    assert (failure["producer"], failure["version"], failure["count"]) == ("old", 0, 7)
    assert "note" in failure["path"] + failure["reason"]
    assert (failure["id"], json.loads(failure["value"])) == ("1:0", {"id": 1})
    assert json.loads(broken.samples[0]["value"]) == {"id": 2, "note": "abc"}


def test_a_message_that_its_own_version_cannot_decode_has_no_value() -> None:
    (failure,) = tried(TWO, message(1, 1, b"\x02\x7f")).failures
    assert failure["path"] == "note"
    assert failure["value"] is None


def test_items_of_lists_fail_at_one_place() -> None:
    items = {"name": "items", "type": {"type": "array", "items": "string"}}
    schema = Schema(SchemaKind.JSON, avro(items).data, {})
    contents = [b'{"items": [1]}', b'{"items": ["a", 2]}', b'{"items": []}']
    outcome = tried(schema, *(message(n, 0, c) for n, c in enumerate(contents)), stored={0: schema})
    assert [(f["path"], f["count"]) for f in outcome.failures] == [("items[]", 2)]
    assert outcome.decoded == 1


def test_a_message_without_a_version_is_read_by_the_candidate_alone() -> None:
    outcome = tried(ONE, message(1, None, b"\x02"), message(2, None, b""))
    assert (outcome.decoded, outcome.failed) == (1, 1)
    assert outcome.failures[0]["value"] is None


def test_another_kind_fails_as_a_whole() -> None:
    outcome = tried(Schema(SchemaKind.STRING, b"", {}), message(1, 0, b"\x02"))
    assert [(f["path"], f["reason"]) for f in outcome.failures] == [
        ("", "AVRO cannot be read as STRING")
    ]


def test_messages_that_cannot_be_decoded_here_are_left_out_and_counted() -> None:
    lost = "schema version 0 cannot be read: the ledger is gone"
    encrypted = OpenedMessage("1:3", "p", 1, None, None, None, "encrypted", "it is encrypted", 5)
    outcome = tried(
        ONE, message(1, 0, b"\x02"), message(2, 0, b"\x02"), encrypted, stored={0: lost}
    )
    assert (outcome.decoded, outcome.failed) == (0, 0)
    assert [(group["why"], group["reason"], group["count"]) for group in outcome.left_out] == [
        ("encrypted", "it is encrypted", 5),
        ("version", lost, 2),
    ]


def test_samples_are_few_and_of_every_producer_and_version_first() -> None:
    messages = [message(n, 0, b"\x02", "busy") for n in range(20)]
    messages.append(message(20, 1, b"\x04\x02a", "quiet"))
    samples = tried(WITH_DEFAULT, *messages).samples
    assert len(samples) == trial.SAMPLES_MAX
    assert [(sample["producer"], sample["version"]) for sample in samples[:2]] == [
        ("busy", 0),
        ("quiet", 1),
    ]
    assert [sample["id"] for sample in samples[2:]] == ["1:1", "1:2", "1:3"]


def test_a_long_value_is_cut_and_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Schema(SchemaKind.STRING, b"", {})
    long = message(1, None, b"x" * 10_000)
    (sample,) = tried(text, long).samples
    assert len(sample["value"]) == trial.TEXT_MAX + 1
    assert sample["value"].endswith("…")
    monkeypatch.setattr(trial, "TIME_S", -1.0)
    outcome = tried(text, long)
    assert (outcome.stopped, outcome.decoded) == (True, 0)
