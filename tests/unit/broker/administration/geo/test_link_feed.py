"""The feed of replicated topics: figures and causes of each link, on both ends."""

from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import pytest

from engine.admin.api.rows import RowsSince
from engine.admin.link_causes import LinkCause
from engine.base.errors import WorldError
from engine.broker.administration.geo import link_feed
from engine.broker.administration.geo.link_feed import LinkFeed
from engine.broker.policies import TopicPolicies
from engine.broker.topics.geo import replicator as module
from engine.client.errors import REFUSALS, LostError, ServerError
from engine.ledger.errors import LedgerError
from tests.support.broker_bench import NAME, Bench, until
from tests.support.instances.replicated_pair import Pair, replicated

pytestmark = pytest.mark.virtual_time


class FeedReader:
    """The gateway's side of the feed: its rows after each count."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.feed = LinkFeed(bench.registry, bench.cluster.clock, "b-1")
        self.asked = RowsSince()
        self.rows: dict[str, list[Any]] = {}

    async def count(self, *, all_touched: bool = True) -> dict[str, Any]:
        touched = self.bench.registry.counters.tick(1.0)
        self.feed.count(list(self.bench.registry) if all_touched else touched)
        answer = await self.feed.since(self.asked)
        if answer["whole"]:
            self.rows.clear()
        self.rows.update({row[0]: row[1:] for row in answer["rows"]})
        for name in answer["gone"]:
            self.rows.pop(name, None)
        self.asked = RowsSince.after(answer)
        return answer

    @property
    def link(self) -> list[Any]:
        [link] = self.rows[NAME.full]
        assert isinstance(link, list)
        return link


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with replicated() as made:
        yield made


async def test_both_ends_report_the_rates_of_a_link(pair: Pair) -> None:
    us, eu = FeedReader(pair.us), FeedReader(pair.eu)
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    await us.count()
    await eu.count()
    await pair.publish(b"a", b"b")
    await pair.caught_up()
    await us.count()
    await eu.count()
    cluster, sent, received = us.link
    backlog, oldest, messages, size, cause, why, since = sent
    assert (cluster, received, backlog, oldest, cause, why) == ("eu", None, 0, 0, None, "")
    assert 0 < messages < size
    assert since == 0
    cluster, sent, received = eu.link
    assert (cluster, sent) == ("us", None)
    assert 0 < received[0] < received[1]


async def test_a_cut_link_has_its_cause_and_the_time_of_its_oldest_message(pair: Pair) -> None:
    us = FeedReader(pair.us)
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    pair.remotes.reachable = False
    await pair.cut()
    cut_ms = pair.us.cluster.clock.wall_ms()
    await pair.publish(b"c", publish_time=1_234)
    await until(lambda: pair.replicator.error == "no connection to eu")
    await us.count()
    backlog, oldest, _, _, cause, why, since = us.link[1]
    assert (backlog, oldest, cause, why) == (1, 1_234, "unreachable", "no connection to eu")
    assert cut_ms - 1000 <= since <= cut_ms + 1000
    pair.remotes.reachable = True
    await pair.caught_up()
    await us.count()
    assert us.link[1][:2] == [0, 0]
    assert us.link[1][4:] == [None, "", 0]


async def test_an_oldest_message_that_is_not_in_memory_is_unknown_until_it_is_read(
    pair: Pair,
) -> None:
    us = FeedReader(pair.us)
    pair.remotes.reachable = False
    await pair.begin()
    await pair.publish(b"c", publish_time=1_234)
    with patch.object(type(pair.us.topic.log), "entry_summary_at_hand", return_value=None):
        await us.count()
        assert us.link[1][:2] == [1, None]
        await pair.us.topic.replication.find_oldest()
        await us.count()
    assert us.link[1][:2] == [1, 1_234]


async def test_a_topic_of_one_cluster_has_no_row_and_loses_the_one_that_it_had(pair: Pair) -> None:
    us = FeedReader(pair.us)
    assert (await us.count())["rows"] == []
    await pair.begin()
    await us.count()
    assert us.link[0] == "eu"
    pair.us.topic.replication.apply(["us"])
    await until(lambda: not pair.us.topic.replication.replicators)
    assert (await us.count())["gone"] == [NAME.full]
    await pair.begin(TopicPolicies(clusters=("us", "eu")))
    await us.count()
    await pair.us.registry.unload(NAME)
    us.feed.count([])
    for _ in range(3 * link_feed.SWEEP_ROUNDS):  # an unloaded topic touches nothing
        await us.count(all_touched=False)
    assert us.rows == {}


async def test_changes_that_touch_no_topic_are_seen_by_the_sweep(pair: Pair) -> None:
    us = FeedReader(pair.us)
    await pair.begin()
    await until(lambda: pair.replicator.connected)
    await us.count()
    with patch.object(module.Replicator, "cause", LinkCause.UNCONFIRMED):
        for _ in range(3 * link_feed.SWEEP_ROUNDS):
            await us.count(all_touched=False)
        assert us.link[1][4] == "unconfirmed"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (REFUSALS[ServerError.AuthorizationError]("no"), LinkCause.RIGHTS),
        (REFUSALS[ServerError.AuthenticationError]("no"), LinkCause.RIGHTS),
        (REFUSALS[ServerError.ProducerBlockedQuotaExceededException]("no"), LinkCause.QUOTA),
        (REFUSALS[ServerError.IncompatibleSchema]("no"), LinkCause.SCHEMA),
        (REFUSALS[ServerError.TopicNotFound]("no"), LinkCause.TOPIC_MISSING),
        (REFUSALS[ServerError.ProducerBusy]("no"), LinkCause.REFUSED),
        (LostError("gone"), LinkCause.UNREACHABLE),
        (LedgerError("no"), LinkCause.STORAGE),
        (WorldError("no"), LinkCause.STORAGE),
        (module.ReplicationBlocked("no", LinkCause.VERSION), LinkCause.VERSION),
        (KeyError("x"), LinkCause.FAILED),
    ],
)
def test_causes_by_kind_of_error(error: Exception, cause: LinkCause) -> None:
    assert module.cause_of(error) is cause
