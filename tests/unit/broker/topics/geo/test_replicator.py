"""Replication of a topic to another cluster: two brokers in memory, each with its own storage."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from engine.admin.link_causes import LinkCause
from engine.base.ids import EARLIEST
from engine.broker.connection.session import FEATURE_FLAGS
from engine.broker.dispatch.source import EntrySource
from engine.broker.errors import ServiceNotReady
from engine.broker.policies import (
    BacklogPolicies,
    MaxRate,
    PublishPolicies,
    RatePolicies,
    TopicPolicies,
)
from engine.broker.topics.geo import replicator as module
from engine.broker.topics.geo.replicator import CURSOR_PREFIX
from engine.broker.transactions.txn_id import TxnId
from engine.client.replicating_producer import ReplicatingProducer
from engine.ledger.errors import LedgerError
from engine.wire.batches import read_metadata
from tests.support.broker_bench import NAME, round_of, until
from tests.support.instances.replicated_pair import ON, Pair, replicated
from tests.support.raw_client import entry_of
from tests.support.transactions.bench import KeptSnapshots, end, put

pytestmark = pytest.mark.virtual_time

SENT_BYTES = len(entry_of(b"v"))
"""Bytes of an entry of the tests as it is stored here, which count against rates."""
WITH_TTL = TopicPolicies(clusters=("us", "eu"), backlog=BacklogPolicies(message_ttl_s=100))


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with replicated() as made:
        yield made


async def test_g2_entries_arrive_in_order_with_their_origin_and_are_passed_when_stored(
    pair: Pair,
) -> None:
    await pair.begin()
    await pair.publish(b"a", b"b", b"c")
    rows = await pair.stored(3)
    assert [row[0] for row in rows] == [b"a", b"b", b"c"]
    assert {row[2] for row in rows} == {"us"}
    positions = [row[1] for row in rows]
    assert positions == sorted(set(positions))  # type: ignore[type-var]
    await pair.caught_up()
    assert pair.replicator.sent.messages.total == 3


async def test_g2_nothing_is_passed_before_it_is_stored_there(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a")
    await pair.caught_up()
    await pair.eu.cluster.stop("b0")
    await pair.publish(b"b")
    await asyncio.sleep(5)
    assert pair.replicator.backlog == 1


async def test_g3_an_entry_is_not_sent_back_or_to_clusters_that_it_is_not_for(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"x", replicated_from="eu")
    await pair.publish(b"y", replicate_to=["ap"])
    await pair.publish(b"z", replicate_to=["__local__"])
    await pair.publish(b"a", replicate_to=["ap", "eu"])
    await pair.publish(b"b")
    assert [row[0] for row in await pair.stored(2)] == [b"a", b"b"]
    await pair.caught_up()
    assert len(await pair.stored(2)) == 2


async def test_x1_committed_messages_are_sent_without_their_transaction(pair: Pair) -> None:
    us = pair.us
    us.context.transaction_snapshots = KeptSnapshots()
    await pair.begin()
    committed, aborted = TxnId(0, 1), TxnId(0, 2)
    await put(us, committed, key="a")
    await put(us, aborted, key="b")
    await put(us, key="c")
    await asyncio.sleep(2 * module.STALL_S)
    assert (pair.replicator.backlog, pair.replicator.restarts) == (3, 0)
    await end(us, aborted, commit=False)
    await end(us, committed, commit=True)
    rows = await pair.stored(2)
    await pair.caught_up()
    assert len(rows) == len(await pair.stored(2)) == 2
    stored = [
        read_metadata(run.entry(i)) async for run, i in pair.eu.topic.log.oldest_first(EARLIEST)
    ]
    assert [metadata is not None and metadata.partition_key for metadata in stored] == ["a", "c"]
    assert not any(metadata.HasField("txnid_most_bits") for metadata in stored if metadata)


async def test_an_entry_as_large_as_entries_may_be_is_sent(pair: Pair) -> None:
    await pair.begin()
    bytes_max = pair.eu.context.settings.max_message_size
    await pair.publish(b"x" * (bytes_max - SENT_BYTES) + b"a")
    await pair.publish(b"b")
    assert [row[0] for row in await pair.stored(2)] == [b"a", b"b"]


async def test_the_size_limit_of_the_other_cluster_stops_no_link(pair: Pair) -> None:
    pair.eu.everything.in_force = replace(ON, publish=PublishPolicies(message_bytes_max=50))
    await pair.eu.registry.unload(NAME)
    await pair.eu.load()
    await pair.begin()
    await pair.publish(b"x" * 100, b"a")
    assert [row[0] for row in await pair.stored(2)] == [b"x", b"a"]


async def test_g2_cut_connections_lose_and_double_nothing(pair: Pair) -> None:
    await pair.begin()
    expected = []
    for number in range(8):
        value = b"%d" % number
        await pair.publish(value)
        expected.append(value)
        if number % 2:
            await until(lambda: pair.replicator.connected)
            await pair.cut()
    assert [row[0] for row in await pair.stored(8)] == expected
    await pair.caught_up()
    assert len(await pair.stored(8)) == 8


async def test_g2_a_broker_that_dies_here_sends_what_was_not_passed(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a", b"b")
    await pair.stored(2)
    await pair.us.kill()
    await pair.begin()
    await pair.publish(b"c")
    assert [row[0] for row in await pair.stored(3)] == [b"a", b"b", b"c"]


async def test_a_cluster_that_cannot_be_reached_is_named_and_tried_again(pair: Pair) -> None:
    pair.remotes.reachable = False
    await pair.begin()
    await pair.publish(b"a")
    await until(lambda: pair.replicator.error)
    assert pair.replicator.error == "no connection to eu"
    assert not pair.replicator.connected
    pair.remotes.reachable = True
    assert [row[0] for row in await pair.stored(1)] == [b"a"]
    assert pair.replicator.error == ""


async def test_a_topic_of_another_shape_there_is_not_sent(pair: Pair) -> None:
    pair.remotes.shape_error = module.ReplicationBlocked("4 here, 2 in eu", LinkCause.PARTITIONS)
    await pair.begin()
    await pair.publish(b"a")
    await until(lambda: pair.replicator.error == "4 here, 2 in eu")
    assert pair.replicator.cause is LinkCause.PARTITIONS
    pair.remotes.shape_error = None
    await pair.stored(1)


async def test_a_cluster_whose_brokers_name_no_source_positions_is_refused(pair: Pair) -> None:
    with patch.dict(FEATURE_FLAGS, supports_repl_dedup_by_lid_and_eid=False):
        await pair.begin()
        await until(lambda: "source positions" in pair.replicator.error)


async def test_g2_a_producer_without_receipts_is_replaced(pair: Pair) -> None:
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    with patch.object(ReplicatingProducer, "receipts", lambda self, receipts: None):
        await pair.publish(b"a")
        await until(lambda: pair.replicator.restarts == 1, bound_s=200)
    await pair.caught_up()
    assert len(await pair.stored(1)) == 1


async def test_g2_a_producer_without_receipts_is_replaced_although_entries_are_appended(
    pair: Pair,
) -> None:
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    with patch.object(ReplicatingProducer, "receipts", lambda self, receipts: None):
        for _ in range(8):
            await pair.publish(b"a")
            await asyncio.sleep(10)
        assert pair.replicator.restarts == 1
    await pair.caught_up()
    assert len(await pair.stored(8)) == 8


async def test_g2_a_replicator_that_reads_nothing_begins_again(pair: Pair) -> None:
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    with patch.object(EntrySource, "next", lambda self, entries_max: None):
        await pair.publish(b"a")
        await until(lambda: pair.replicator.restarts == 1, bound_s=200)
    await pair.caught_up()
    assert len(await pair.stored(1)) == 1


async def test_a_failure_right_after_the_attachment_leaves_no_producer_there(pair: Pair) -> None:
    with patch.object(module.Replicator, "_expire", side_effect=[LedgerError("silent"), None]):
        await pair.begin()
        await pair.publish(b"a")
        await pair.stored(1)


async def test_g2_a_producer_waits_until_positions_in_other_clusters_are_stored(
    pair: Pair,
) -> None:
    await pair.begin()
    topic = pair.us.topic
    opening, real = asyncio.Event(), type(topic.log).open_cursor

    async def slow(*args: Any, **kwargs: Any) -> Any:
        await opening.wait()
        return await real(*args, **kwargs)

    with patch.object(type(topic.log), "open_cursor", slow):
        policies = TopicPolicies(clusters=("us", "eu", "ap"))
        await topic.apply(policies, pair.us.everything.ledger_config(ON))
        with pytest.raises(ServiceNotReady, match="not stored yet"):
            await topic.replication.ready()
        waiting = asyncio.ensure_future(topic.replication.ready())
        await asyncio.sleep(1)
        opening.set()
        await waiting
    assert {CURSOR_PREFIX + "eu", CURSOR_PREFIX + "ap"} <= topic.log.cursors.keys()


async def test_versions_of_schemas_are_those_of_the_other_cluster(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a", schema_version=b"\0\0\0\0\0\0\0\1")
    await pair.publish(b"b", b"c", schema_version=b"\0\0\0\0\0\0\0\2")
    await pair.stored(3)
    log = pair.eu.topic.log
    metadata = read_metadata((await log.read_entry(log.last_confirmed)).entry(0))
    assert metadata is not None
    assert metadata.schema_version == b"\2\0\0\0\0\0\0\0"
    assert pair.remotes.registered == [b"\0\0\0\0\0\0\0\1", b"\0\0\0\0\0\0\0\2"]


async def test_a_cluster_that_is_removed_leaves_no_position_behind(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a")
    await pair.caught_up()
    topic = pair.us.topic
    await topic.apply(TopicPolicies(clusters=("us",)), pair.us.everything.ledger_config(ON))
    await until(lambda: CURSOR_PREFIX + "eu" not in topic.log.cursors)
    assert topic.replication.replicators == {}
    await until(lambda: not pair.eu.topic.producers)


async def test_policies_without_clusters_change_nothing(pair: Pair) -> None:
    await pair.begin()
    await pair.us.topic.apply(TopicPolicies(), pair.us.everything.ledger_config(ON))
    assert pair.us.topic.replication.replicators.keys() == {"eu"}


async def test_a_topic_that_is_sent_is_in_use_until_all_of_it_is_stored_there(pair: Pair) -> None:
    pair.remotes.reachable = False
    await pair.begin()
    await pair.publish(b"a")
    assert not pair.us.topic.is_unused(caught_up=True)
    pair.remotes.reachable = True
    await pair.caught_up()
    assert pair.us.topic.is_unused(caught_up=True)


async def test_the_position_of_a_cluster_is_no_subscription(pair: Pair) -> None:
    await pair.begin()
    assert pair.us.topic.subscriptions.names == []
    assert CURSOR_PREFIX + "eu" in pair.us.topic.log.cursors


async def test_entries_older_than_the_ttl_are_passed_and_counted_as_expired(pair: Pair) -> None:
    pair.remotes.reachable = False
    await pair.begin(WITH_TTL)
    now_ms = pair.us.context.clock.wall_ms()
    await pair.publish(b"a", b"b", publish_time=now_ms - 101_000)
    await pair.publish(b"c", publish_time=now_ms - 50_000)
    await round_of(pair.us, "expiry")
    assert (pair.replicator.backlog, pair.replicator.expired.total) == (1, 2)
    pair.remotes.reachable = True
    assert [row[0] for row in await pair.stored(1)] == [b"c"]
    await pair.caught_up()
    assert pair.replicator.expired.total == 2


async def test_entries_that_expired_while_a_cluster_was_away_are_not_sent(pair: Pair) -> None:
    pair.remotes.reachable = False
    await pair.begin(WITH_TTL)
    now_ms = pair.us.context.clock.wall_ms()
    await pair.publish(b"a", publish_time=now_ms - 101_000)
    await pair.publish(b"b", publish_time=now_ms)
    pair.remotes.reachable = True
    assert [row[0] for row in await pair.stored(1)] == [b"b"]
    assert pair.replicator.expired.total == 1


def at_rate(rate: MaxRate) -> TopicPolicies:
    return TopicPolicies(clusters=("us", "eu"), rates=RatePolicies(replicator=rate))


@pytest.mark.parametrize("rate", [MaxRate(messages=10), MaxRate(size=10 * SENT_BYTES)])
async def test_no_more_is_sent_than_the_rate_to_a_cluster_admits(pair: Pair, rate: MaxRate) -> None:
    await pair.begin(at_rate(rate))
    await until(lambda: pair.replicator.connected)
    clock = pair.us.context.clock
    began_s = clock.monotonic_s()
    await pair.publish(*[b"v"] * 50)
    assert len(await pair.stored(50)) == 50
    assert 3.5 < clock.monotonic_s() - began_s < 5.5


async def test_a_changed_rate_applies_to_what_waits(pair: Pair) -> None:
    await pair.begin(at_rate(MaxRate(messages=1, period_s=3600)))
    await pair.publish(b"a", b"b", b"c")
    await pair.stored(1)
    await asyncio.sleep(60)
    assert pair.eu.topic.log.entries_added == 1
    faster = at_rate(MaxRate(messages=1_000))
    await pair.us.topic.apply(faster, pair.us.everything.ledger_config(faster))
    assert [row[0] for row in await pair.stored(3)] == [b"a", b"b", b"c"]
    assert pair.replicator.restarts == 0


async def test_entries_that_are_passed_do_not_count_against_the_rate(pair: Pair) -> None:
    await pair.begin(at_rate(MaxRate(messages=1, period_s=3600)))
    await pair.publish(*[b"x"] * 20, replicated_from="eu")
    await pair.publish(b"a")
    assert [row[0] for row in await pair.stored(1)] == [b"a"]


async def test_a_link_rests_until_there_is_something_to_send(pair: Pair) -> None:
    await pair.begin()
    await pair.publish(b"a")
    await pair.caught_up()
    pair.us.topic.replication.rest()
    await until(lambda: not pair.eu.topic.producers)
    assert (pair.replicator.connected, pair.replicator.cause) == (False, None)
    assert pair.eu.topic.is_unused(caught_up=True)
    await pair.publish(b"b")
    assert [row[0] for row in await pair.stored(2)] == [b"a", b"b"]
    await pair.caught_up()


async def test_a_link_with_something_to_send_does_not_rest(pair: Pair) -> None:
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    with patch.object(ReplicatingProducer, "receipts", lambda self, receipts: None):
        await pair.publish(b"a")
        pair.us.topic.replication.rest()
        await asyncio.sleep(1)
        assert pair.replicator.connected
