"""Hot keys, field drift and personal data through the real engine, on topics whose answers are known."""

import json
from collections.abc import Callable
from pathlib import Path

import pulsar
import pytest

from tests.support.analyses.runs import Answer
from tests.support.analyses.topics_with_answers import (
    drifting_fields,
    hostile,
    hot_keys,
    personal_data,
)

Run = Callable[..., Answer]
TOPIC = "persistent://public/default/answers-"


@pytest.mark.timeout(300)
def test_the_hot_key_and_the_consumers_worth_having_are_found(
    client: pulsar.Client, run: Run
) -> None:
    keys = hot_keys(client, f"{TOPIC}keys")
    answer = run("hot-keys", topic=keys.topic)
    counted = {row["key"]: row["messages"] for row in answer.rows("hot_keys")}
    assert len(counted) == 20
    assert counted.items() <= keys.messages.items()
    assert answer.figure("keys") == len(keys.messages)
    assert answer.figure("key_share") == 50
    assert 2 <= answer.figure("consumers") <= 8
    assert answer.rows("balance")[0]["busiest"] == 100


@pytest.mark.timeout(300)
def test_drifted_fields_name_the_producer_that_began(client: pulsar.Client, run: Run) -> None:
    drift = drifting_fields(client, f"{TOPIC}drift")
    answer = run("field-drift", topic=drift.topic)
    changes = {row["field"]: row for row in answer.rows("changes")}
    assert set(changes) == {"currency", "discount", "price"}
    assert {row["producer"] for row in changes.values()} == {drift.second_producer}
    assert {row["messages"] for row in changes.values()} == {drift.count - drift.since}


@pytest.mark.timeout(300)
def test_personal_data_is_found_and_stays_masked(client: pulsar.Client, run: Run) -> None:
    planted = personal_data(client, f"{TOPIC}persons")
    answer = run("personal-data", topic=planted.topic)
    kinds = {row["field"]: row["data"] for row in answer.rows("personal_data")}
    assert kinds == planted.fields | {"key": "email"}
    written = json.dumps(answer.result).encode()
    written += b"".join(path.read_bytes() for path in answer.files.iterdir())
    for person in planted.persons:
        assert person["contact"]["mail"].encode() not in written
        assert person["contact"]["mobile"].encode() not in written
    for secret in (b"4111 1111", b"3704 0044"):
        assert secret not in written


@pytest.mark.timeout(300)
def test_hostile_messages_break_none(client: pulsar.Client, run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    answer = hostile(client, f"{TOPIC}hostile", keys)
    assert run("hot-keys", topic=answer.topic).figure("messages") == answer.count
    assert run("personal-data", topic=answer.topic).figure("messages") == answer.count
    assert run("field-drift", topic=answer.topic).figure("not_json") > 0
