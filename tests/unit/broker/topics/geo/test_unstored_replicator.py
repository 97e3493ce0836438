"""Replication of a non-persistent topic: entries are sent as they arrive, or dropped and counted."""

from collections.abc import AsyncIterator
from unittest.mock import patch

import pytest

from engine.admin.api.statistics import TopicStats
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.administration.reports import topic_stats
from engine.broker.connection.session import FEATURE_FLAGS
from engine.broker.policies import MaxRate, RatePolicies, TopicPolicies
from engine.broker.topics.geo import unstored_replicator as module
from engine.broker.topics.geo.unstored_replicator import UnstoredReplicator
from engine.client.errors import ClientError
from engine.client.replicating_producer import METADATA_BYTES_MAX, ReplicatingProducer
from engine.wire.batches import read_metadata
from engine.wire.geo.source_positions import source_position
from tests.support.broker_bench import until
from tests.support.instances.replicated_pair import TO_BOTH, Pair, replicated

pytestmark = pytest.mark.virtual_time

NAME = TopicName.parse("non-persistent://public/default/now")


class Arrived:
    """Entries that the topic of ``eu`` received."""

    def __init__(self, pair: Pair) -> None:
        self.rows: list[tuple[bytes, str, Position | None, bytes]] = []
        pair.eu.publish_by(self._take)
        self._pass_on = pair.eu.topic.log.append

    def _take(self, publish: object) -> None:
        run = publish.run  # type: ignore[attr-defined]
        for i in range(run.count):
            entry = run.entry(i)
            metadata = read_metadata(entry)
            assert metadata is not None
            self.rows.append(
                (
                    entry[-1:],
                    metadata.replicated_from,
                    source_position(metadata),
                    metadata.schema_version,
                )
            )
        self._pass_on(run, publish)  # type: ignore[arg-type]

    @property
    def values(self) -> list[bytes]:
        return [row[0] for row in self.rows]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with replicated() as made:
        await made.eu.load(NAME)
        yield made


@pytest.fixture
async def arrived(pair: Pair) -> Arrived:
    return Arrived(pair)


def sender(pair: Pair) -> UnstoredReplicator:
    assert isinstance(pair.replicator, UnstoredReplicator)
    return pair.replicator


async def connected(pair: Pair, policies: TopicPolicies = TO_BOTH) -> UnstoredReplicator:
    await pair.begin(policies, NAME)
    await until(lambda: sender(pair).connected)
    return sender(pair)


async def test_entries_are_sent_with_their_origin_and_counted(pair: Pair, arrived: Arrived) -> None:
    replicator = await connected(pair)
    await pair.publish(b"a", b"b")
    await until(lambda: len(arrived.rows) == 2)
    assert arrived.rows == [(b"a", "us", None, b""), (b"b", "us", None, b"")]
    await until(lambda: replicator.sent.messages.total == 2)
    assert (replicator.dropped.total, replicator.backlog, replicator.delay_s) == (0, 0, 0)


async def test_g3_entries_of_other_clusters_and_for_others_are_not_sent_nor_counted(
    pair: Pair, arrived: Arrived
) -> None:
    replicator = await connected(pair)
    await pair.publish(b"x", replicated_from="eu")
    await pair.publish(b"y", replicate_to=["ap"])
    await pair.publish(b"a", replicate_to=["eu"])
    await until(lambda: arrived.values == [b"a"])
    assert replicator.dropped.total == 0


async def test_entries_are_dropped_while_the_other_cluster_is_away(
    pair: Pair, arrived: Arrived
) -> None:
    pair.remotes.reachable = False
    await pair.begin(TO_BOTH, NAME)
    await pair.publish(b"a", b"b")
    assert sender(pair).dropped.total == 2
    pair.remotes.reachable = True
    await until(lambda: sender(pair).connected)
    await pair.publish(b"c")
    await until(lambda: arrived.values == [b"c"])
    await pair.cut()
    await until(lambda: sender(pair).connected)
    await pair.publish(b"d")
    await until(lambda: arrived.values == [b"c", b"d"])


async def test_entries_without_a_receipt_bound_what_is_sent(pair: Pair, arrived: Arrived) -> None:
    replicator = await connected(pair)
    with (
        patch.object(module, "UNANSWERED_MAX", 2),
        patch.object(ReplicatingProducer, "receipts", lambda self, receipts: None),
    ):
        await pair.publish(b"a", b"b")
        await pair.publish(b"c")
        await until(lambda: arrived.values == [b"a", b"b"])
    assert replicator.dropped.total == 1


async def test_entries_above_the_rate_are_dropped(pair: Pair, arrived: Arrived) -> None:
    limited = RatePolicies(replicator=MaxRate(1, period_s=1000))
    replicator = await connected(pair, TopicPolicies(clusters=("us", "eu"), rates=limited))
    await pair.publish(b"a")
    await pair.publish(b"b")
    assert replicator.dropped.total == 1
    await until(lambda: arrived.values == [b"a"])


async def test_an_entry_larger_than_the_other_cluster_takes_is_dropped(
    pair: Pair, arrived: Arrived
) -> None:
    replicator = await connected(pair)
    assert replicator._producer is not None
    replicator._producer.link.max_message_size = 10
    await pair.publish(bytes(METADATA_BYTES_MAX))
    assert replicator.dropped.total == 1
    assert replicator.connected


async def test_entries_are_dropped_until_their_schema_is_registered(
    pair: Pair, arrived: Arrived
) -> None:
    replicator = await connected(pair)
    version = b"\0\0\0\0\0\0\0\1"
    await pair.publish(b"a", schema_version=version)
    assert replicator.dropped.total == 1
    await until(lambda: pair.remotes.registered == [version])
    await pair.publish(b"b", schema_version=version)
    await until(lambda: arrived.values == [b"b"])
    assert arrived.rows[0][3] == bytes(reversed(version))


async def test_a_schema_that_is_refused_is_named_and_tried_again(pair: Pair) -> None:
    replicator = await connected(pair)
    version = b"\0\0\0\0\0\0\0\1"
    with patch.object(pair.remotes, "register_schema", side_effect=ClientError("not compatible")):
        await pair.publish(b"a", schema_version=version)
        await until(lambda: replicator.error == "not compatible")
    await pair.publish(b"b", schema_version=version)
    await until(lambda: pair.remotes.registered == [version])


async def test_a_cluster_whose_brokers_name_no_source_positions_receives_them_too(
    pair: Pair, arrived: Arrived
) -> None:
    with patch.dict(FEATURE_FLAGS, supports_repl_dedup_by_lid_and_eid=False):
        await connected(pair)
        await pair.publish(b"a")
        await until(lambda: arrived.values == [b"a"])


async def test_statistics_have_the_drop_rate_of_each_cluster(pair: Pair, arrived: Arrived) -> None:
    replicator = await connected(pair)
    await pair.publish(b"a")
    await until(lambda: replicator.sent.messages.total == 1)
    replicator.dropped.total = 3
    assert replicator.tick(1.0)
    rate = replicator.dropped.per_second
    assert rate > 0
    there = topic_stats(pair.us.topic, TopicStats(NAME), "b")["replication"]["eu"]
    assert (there["msgDropRate"], there["connected"], there["msgOutCount"]) == (rate, True, 1)
    here = topic_stats(pair.eu.topic, TopicStats(NAME), "b")["replication"]["us"]
    assert (here["msgDropRate"], here["msgInCount"]) == (0.0, 1)
