"""Usage and what-if through the real engine, on topics whose answers are known."""

from collections.abc import Callable
from pathlib import Path

import pulsar
import pytest

from tests.support.analyses.runs import Answer
from tests.support.analyses.topics_with_answers import hostile, hot_keys, publish

Run = Callable[..., Answer]
TOPIC = "persistent://public/default/amounts-"


@pytest.mark.timeout(300)
def test_usage_of_a_topic_and_of_its_namespace_is_that_of_its_messages(
    client: pulsar.Client, run: Run
) -> None:
    keys = hot_keys(client, f"{TOPIC}usage")
    alone = run("usage", topic=keys.topic, price_published=1000)
    [row] = alone.rows("topics")
    assert (row["topic"], row["messages"]) == (keys.topic, keys.messages.total())
    assert row["stored"] >= row["published"] >= keys.value_bytes
    assert alone.figure("cost") == pytest.approx(row["published"] / 1_000_000)
    for target in ({"namespace": "public/default"}, {"tenant": "public"}, {}):
        rows = {item["topic"]: item["messages"] for item in run("usage", **target).rows("topics")}
        assert rows[keys.topic] == keys.messages.total()


@pytest.mark.timeout(300)
def test_better_packing_of_repetitive_messages_is_found(client: pulsar.Client, run: Run) -> None:
    values = [b'{"status": "shipped", "note": "%s %d"}' % (b"lorem " * 20, i) for i in range(500)]
    publish(client, f"{TOPIC}packing", [(value, {}) for value in values], batched=False)
    answer = run("what-if", topic=f"{TOPIC}packing", disk_free_gb=100)
    best = answer.rows("packing")[0]
    assert best["codec"] in ("ZSTD", "ZLIB")
    assert best["share"] < 30
    assert {row["days"] for row in answer.rows("retention")} == {7, 30, 90}
    assert answer.figure("full") is not None


@pytest.mark.timeout(300)
def test_hostile_messages_break_none(client: pulsar.Client, run: Run, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    answer = hostile(client, f"{TOPIC}hostile", keys)
    assert run("usage", topic=answer.topic).figure("messages") == answer.count
    assert run("what-if", topic=answer.topic).figure("samples") > 0
