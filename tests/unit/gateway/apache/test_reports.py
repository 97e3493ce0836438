"""Feeds of a broker that is polled."""

import pytest

from engine.admin.api.rows import SUBSCRIPTION_ROWS, TOPIC_ROWS, RowsSince
from engine.base.errors import NotReady
from gateway.apache import reports
from gateway.apache.reports import PolledRows
from gateway.services.engine_link import Engine, EngineLink
from tests.support.net.recorded_apache import RecordedApache

STATS = "/admin/v2/broker-stats/topics"


def test_a_feed_reports_what_changed_since_a_revision() -> None:
    feed = PolledRows()
    feed.replace({"a": ["a", 1], "b": ["b", 1]})
    assert feed.since(0) == (True, [["a", 1], ["b", 1]], [])
    first = feed.revision
    feed.replace({"a": ["a", 1], "c": ["c", 1]})
    assert feed.since(first) == (False, [["c", 1]], ["b"])
    assert feed.since(feed.revision) == (False, [], [])


def test_a_feed_that_lost_too_many_names_reports_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "GONE_MAX", 1)
    feed = PolledRows()
    feed.replace({name: [name] for name in "abc"})
    first = feed.revision
    feed.replace({})
    assert feed.since(first) == (True, [], [])


def test_one_request_has_the_figures_of_all_topics(
    link: EngineLink, apache: RecordedApache
) -> None:
    async def ask(engine: Engine) -> list[str]:
        (broker,) = await engine.admin.brokers()
        answer = await engine.call_on(broker, TOPIC_ROWS, RowsSince())
        again = await engine.call_on(broker, SUBSCRIPTION_ROWS, RowsSince())
        assert answer["whole"]
        assert again["rows"]
        assert answer["at"] <= answer["asked"]
        return [row[0] for row in answer["rows"]]

    assert "persistent://acme/ns5/orders-0005" in link.run(ask)
    assert apache.reads.count(STATS) == 1


def test_a_broker_that_refuses_is_an_error_of_the_feed(
    link: EngineLink, apache: RecordedApache
) -> None:
    apache.refusals[STATS] = 403, "Need superuser"

    async def ask(engine: Engine) -> None:
        (broker,) = await engine.admin.brokers()
        await engine.call_on(broker, TOPIC_ROWS, RowsSince())

    with pytest.raises(NotReady, match="Need superuser"):
        link.run(ask)
