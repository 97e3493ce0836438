"""Ledgers and their holders, through the real engine."""

from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from tests.support.analyses.runs import Answer
from tests.support.analyses.topics_with_answers import publish
from tests.support.instance import Instance


@pytest.mark.timeout(300)
def test_a_slow_subscription_and_retention_hold_their_ledgers(
    run: Callable[..., Answer], client: pulsar.Client, instance: Instance
) -> None:
    namespace = "public/held"
    assert instance.rest("PUT", f"/admin/v2/namespaces/{namespace}", {})[0] < 300
    slow, kept = (f"persistent://{namespace}/{name}" for name in ("slow", "kept"))
    publish(client, slow, [(b"x" * 10_000, {})] * 20, batched=False)
    publish(client, kept, [(b"y" * 10_000, {})] * 20, batched=False)
    path = f"/admin/v2/persistent/{namespace}/kept"
    rule = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
    assert instance.rest("POST", f"{path}/retention", rule)[0] < 300
    reader = client.subscribe(kept, "keep")
    for _ in range(20):
        reader.acknowledge(reader.receive(10_000))
    reader.close()
    for name in ("slow", "kept"):
        # An unloaded topic is opened again with a new ledger.
        assert instance.rest("PUT", f"/admin/v2/persistent/{namespace}/{name}/unload")[0] < 300
    publish(client, slow, [(b"x", {})])
    publish(client, kept, [(b"y", {})])

    answer = run("disk-not-freed", namespace=namespace)
    held = {(row["topic"], row["held_by"]): row for row in answer.rows("ledgers")}
    assert held[slow, "a subscription"]["entries"] == 20
    assert held[slow, "a subscription"]["subscriptions"] == "keep"
    assert held[kept, "retention"]["entries"] == 20
    assert held[kept, "retention"]["until"] > held[kept, "retention"]["closed"]
    [hold] = answer.rows("subscriptions")
    assert (hold["topic"], hold["subscription"], hold["ledgers"]) == (slow, "keep", 1)
    assert hold["alone"] >= 200_000
    total = answer.figure("stored_bytes")
    assert sum(row["bytes"] for row in answer.rows("bookies")) == total
    alone = run("disk-not-freed", topic=slow)
    assert {row["topic"] for row in alone.rows("ledgers")} == {slow}
    everything: Any = run("disk-not-freed")
    assert everything.figure("stored_bytes") >= total
