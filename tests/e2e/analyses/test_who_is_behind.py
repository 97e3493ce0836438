"""Backlogs of subscriptions, through the real engine."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.e2e.test_newcomer import wait_for
from tests.support.analyses.runs import Answer, Shown
from tests.support.analyses.topics_with_answers import hostile, publish
from tests.support.instance import Instance
from tests.support.waiting import until_blocking


@pytest.mark.timeout(300)
def test_holes_keys_and_ages_are_those_of_what_was_not_acknowledged(
    run: Callable[..., Answer], client: pulsar.Client, instance: Instance
) -> None:
    topic = "persistent://public/default/behind"
    shared = {"consumer_type": pulsar.ConsumerType.Shared}
    client.subscribe(topic, "shared", **shared).close()
    messages = [(b"x" * 100, {"partition_key": f"k{i % 3}"}) for i in range(90)]
    publish(client, topic, messages, batched=False)
    consumer = client.subscribe(topic, "shared", **shared)
    for number in range(90):
        message = consumer.receive(10_000)
        if number not in (10, 40, 41, 80):
            consumer.acknowledge(message)
    consumer.close()
    # The unload stores what was acknowledged.
    assert instance.rest("PUT", "/admin/v2/persistent/public/default/behind/unload")[0] == 204

    answer = run("who-is-behind", topic=topic)
    behind = {row["subscription"]: row for row in answer.rows("subscriptions")}
    assert behind["keep"]["messages"] == 90
    assert behind["shared"]["messages"] == 4
    assert (behind["shared"]["holes"], behind["shared"]["acknowledged"]) == (3, 76)
    assert behind["keep"]["oldest"] <= behind["shared"]["oldest"]
    keys = Counter(
        {r["key"]: r["messages"] for r in answer.rows("keys") if r["subscription"] == "shared"}
    )
    assert keys == Counter(f"k{i % 3}" for i in (10, 40, 41, 80))
    assert sum(sum(list(row.values())[2:]) for row in answer.rows("ages")) == 94
    [only] = run("who-is-behind", topic=topic, subscription="shared").rows("subscriptions")
    assert only == behind["shared"] | {"age_s": only["age_s"]}
    unread = run("who-is-behind", topic=topic, read=False)
    assert unread.figure("backlog_entries") == 94
    assert unread.figure("backlog_messages") is None
    assert {row["entries"] for row in unread.rows("consumers")} == {None}


@pytest.mark.timeout(300)
def test_a_worker_shows_the_backlog_by_consumer(
    spark: Any, client: pulsar.Client, instance: Instance
) -> None:
    topic = "persistent://public/default/behind-consumers"
    shared = {"consumer_type": pulsar.ConsumerType.Shared}
    client.subscribe(topic, "left", **shared).close()
    consumer = client.subscribe(topic, "held", consumer_name="holder", **shared)
    publish(client, topic, [(b"%d" % i, {}) for i in range(10)], batched=False)
    for number in range(7):
        message = consumer.receive(10_000)
        if number < 2:
            consumer.acknowledge(message)
    path = "/api/v1/clusters/standalone/topics/persistent/public/default/behind-consumers/subscriptions/held/holders"
    until_blocking(lambda: instance.rest("GET", path)[1]["entries"] == 8, "8 entries are held")

    body = {"analysis": "who-is-behind", "parameters": {"topic": topic}}
    run_id = instance.rest("POST", "/api/v1/runs", body)[1]["id"]
    ended = ("succeeded", "failed")
    run = wait_for(instance, f"/api/v1/runs/{run_id}", lambda r: r["state"] in ended, 150)
    assert run["state"] == "succeeded", run["error"]
    answer = Answer(run["result"], Shown(), Path())
    shown = {row["subscription"]: row for row in answer.rows("consumers")}
    assert (shown["held"]["consumer"], shown["held"]["entries"]) == ("holder", 8)
    assert (shown["held"]["messages"], shown["held"]["known"]) == (8, "yes")
    assert (shown["left"]["entries"], shown["left"]["known"]) == (0, "no consumer is connected")
    assert any("most to holder (8)" in sentence for sentence in answer.conclusions)
    consumer.close()


@pytest.mark.timeout(300)
def test_a_backlog_of_hostile_messages_is_counted(
    run: Callable[..., Answer], client: pulsar.Client, tmp_path: Path
) -> None:
    answer = hostile(client, "persistent://public/default/behind-hostile", tmp_path)
    assert run("who-is-behind", topic=answer.topic).figure("backlog_messages") == answer.count
