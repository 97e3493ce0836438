"""The driver's view of a stream's topics: the end that no recovery can cut off, and topics that come and go."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spark_jobs.pulsar_source.options import OptionError, TopicChoice
from spark_jobs.pulsar_source.streams.watch import SETTLE_S, TOPICS_S, TopicWatch
from tests.support.analyses.queries import TOPIC, Topics
from tests.support.managed_cluster import Brokers


@pytest.fixture
async def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Topics]:
    brokers = Brokers(tmp_path)
    await brokers.start()
    yield Topics(brokers, monkeypatch, entries=100)
    await brokers.close()


class Look:
    """A watch at a time that the test sets."""

    def __init__(self, topics: Topics) -> None:
        self.now_s = 0.0
        self._topics = topics
        self._ledgers = topics.brokers.cluster.client()
        self._watch = TopicWatch(TopicChoice((TOPIC,)), lambda: self.now_s)

    async def end(self, after_s: float = 0.0) -> int | None:
        """Return the entry behind the readable ones; None without the topic."""
        self.now_s += after_s
        known = await self._watch.look(self._topics.store, self._ledgers)
        return known[TOPIC].end[1] if TOPIC in known else None


async def test_q3_a_stored_entry_is_readable_once_it_has_settled(topics: Topics) -> None:
    await topics.send(5)
    look = Look(topics)
    # Each entry announces that the one before it is confirmed.
    assert await look.end() == 4
    assert await look.end(0.01) == 4
    assert await look.end(SETTLE_S / 2) == 4
    assert await look.end(SETTLE_S) == 5
    assert await look.end(0.01) == 5
    await topics.send(3)
    assert await look.end(0.01) == 7
    assert await look.end(0.01) == 7
    await topics.send(1)
    assert await look.end(SETTLE_S * 2) == 8


async def test_a_deleted_topic_is_absent_until_it_is_made_again(topics: Topics) -> None:
    with pytest.raises(OptionError, match="there is no topic"):
        await Look(topics).end()
    await topics.send(2)
    look = Look(topics)
    assert await look.end() == 1
    await topics.broker.delete("public/default/persistent/t")
    assert await look.end(TOPICS_S + 1) is None
    await topics.send(4)
    assert await look.end(TOPICS_S + 1) == 3
