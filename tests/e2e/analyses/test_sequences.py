"""Lost, doubled and reordered messages through the real engine, on topics whose answers are known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_jobs.catalogue import ANALYSES
from tests.support.analyses.runs import Answer, Shown
from tests.support.analyses.topics_with_answers import faulty_sequences, hostile, publish
from tests.support.instance import Instance

Run = Callable[..., Answer]
TOPIC = "persistent://public/default/sequences-"


@pytest.mark.timeout(300)
def test_faults_of_sequences_are_found_and_two_topics_are_compared(
    client: pulsar.Client, run: Run
) -> None:
    planted = faulty_sequences(client, f"{TOPIC}faulty")
    answer = run("lost-doubled-reordered", topic=planted.topic)
    for kind in ("lost", "doubled", "reordered"):
        faults = [row for row in answer.rows("faults") if row["kind"] == kind]
        ids = {i for row in faults for i in range(row["first"], row["last"] + 1)}
        assert ids == set(getattr(planted, kind)), kind
        assert answer.figure(kind) == len(ids)
        assert {row["producer"] for row in faults} == {planted.producer}

    copied = [str(number) for number in sorted(planted.sent) if number != 150]
    copied.insert(10, copied.pop(5))  # one key is on its own line, so this is no disorder
    publish(
        client,
        f"{TOPIC}copy",
        [(text.encode(), {"partition_key": text}) for text in [*copied, "3", "more"]],
    )
    compared = run("lost-doubled-reordered", topic=planted.topic, other_topic=f"{TOPIC}copy")
    differences = {kind: compared.figure(f"other_{kind}") for kind in ("missing", "extra")}
    assert differences == {"missing": 1, "extra": 1}
    assert (compared.figure("other_doubled"), compared.figure("other_reordered")) == (1, 0)
    kinds = [row["kind"] for row in compared.rows("differences")]
    assert kinds == ["missing", "extra", "doubled"]
    assert compared.rows("differences")[0]["position"]


@pytest.mark.timeout(300)
def test_messages_without_keys_that_change_their_order_are_found(
    client: pulsar.Client, run: Run
) -> None:
    numbers = [str(number).encode() for number in range(20)]
    publish(client, f"{TOPIC}first", [(value, {}) for value in numbers])
    moved = [*numbers[:5], numbers[9], *numbers[5:9], *numbers[10:]]
    publish(client, f"{TOPIC}second", [(value, {}) for value in moved])
    compared = run("lost-doubled-reordered", topic=f"{TOPIC}first", other_topic=f"{TOPIC}second")
    assert compared.figure("other_reordered") == 1
    same = run("lost-doubled-reordered", topic=f"{TOPIC}first", other_topic=f"{TOPIC}first")
    assert "has all of 20 messages" in same.conclusions[0]


@pytest.mark.timeout(300)
def test_hostile_messages_break_none(client: pulsar.Client, run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    answer = hostile(client, f"{TOPIC}hostile", keys)
    alone = run("lost-doubled-reordered", topic=answer.topic, other_topic=answer.topic)
    assert alone.figure("messages") == answer.count
    assert alone.figure("other_missing") == alone.figure("other_extra") == 0
    audit = run("replication-audit", topic=answer.topic)
    assert audit.figure("arrived") == 0


@pytest.mark.timeout(300)
def test_an_audit_looks_for_each_message_in_the_other_cluster(
    client: pulsar.Client, spark: Any, instance: Instance, tmp_path: Path
) -> None:
    topic = f"{TOPIC}audited"
    publish(client, topic, [(str(number).encode(), {}) for number in range(50)])
    # The other cluster is the same one here, so that every message is its own copy.
    url = f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"
    result = ANALYSES["replication-audit"].load()(
        spark,
        {"topic": topic, "other_cluster": "east", "samples": 5, "settle_ms": 0, "last_entries": 0},
        {"metadata.url": url, "other.metadata.url": url},
        progress=Shown(),
        output_dir=tmp_path,
    )
    answer = Answer(result, Shown(), tmp_path)
    assert answer.figure("compared") == 50
    assert [answer.figure(kind) for kind in ("missing", "doubled", "reordered")] == [0, 0, 0]
    assert answer.conclusions[0] == (
        "The copy of 50 messages published in this cluster is complete, without doubles and in order."
    )
