"""Links of all brokers, assembled from their reports: sums, topics that are behind, moves and departures."""

from typing import Any

import pytest

from gateway.services.feeds.row_list import RowChanges
from gateway.services.geo.link_figures import figures_of
from gateway.services.geo.link_index import KEPT_MS, UNLOADED, LinkIndex
from gateway.services.index.rows import LAST, LIVE, NO

T = "persistent://t/n/"
BOTH = ["b1", "b2"]


def sent(
    backlog: int = 0, oldest: int | None = 0, cause: str | None = None, **more: Any
) -> list[Any]:
    return [backlog, oldest, 1_000, 10_000, cause, more.get("why", ""), more.get("since", 0)]


class Reported:
    """An index with reports of brokers, at a time of the test's own."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.unloaded: set[str] = set()
        self.index = LinkIndex(self.unloaded.__contains__, lambda: self.now)

    def report(self, broker: str, topic: str, *links: list[Any]) -> None:
        self.index.apply(broker, RowChanges(self.now, [[T + topic, *links]], []))

    def gone(self, broker: str, topic: str) -> None:
        self.index.apply(broker, RowChanges(self.now, [], [T + topic]))

    def figures(self, remote: str = "eu", answering: list[str] = BOTH) -> Any:
        return figures_of(self.index, remote, answering=answering, registered=BOTH)

    def behind(self, remote: str = "eu") -> list[str]:
        links = self.index.topics(remote, all_topics=False)
        return [link.topic.removeprefix(T) for link in links]


@pytest.fixture
def reported() -> Reported:
    return Reported()


def test_a_link_is_the_sum_of_its_topics_over_all_brokers(reported: Reported) -> None:
    reported.report("b1", "a", ["ap", sent(), None], ["eu", sent(3, 500), [2_000, 20_000]])
    reported.report("b2", "b", ["eu", sent(4, 400, "schema", why="no", since=7), None])
    reported.report("b2", "c", ["eu", None, [1_000, 1]])
    eu = reported.figures()
    assert (eu.topics, eu.stopped, eu.backlog, eu.oldest) == (2, 1, 7, 400)
    assert (eu.messages, eu.bytes) == (2_000, 20_000)
    assert (eu.received_topics, eu.received_messages, eu.received_bytes) == (2, 3_000, 20_001)
    assert [tuple(cause) for cause in eu.causes] == [("schema", 1, T + "b", "no", 7)]
    assert (eu.known, eu.silent) == (LIVE, [])
    assert reported.figures("ap").topics == 1
    assert reported.behind() == ["a", "b"]
    assert reported.behind("ap") == []
    assert reported.index.remotes() == {"ap", "eu"}


def test_a_new_row_replaces_the_topics_old_one_in_the_sums(reported: Reported) -> None:
    reported.report("b1", "a", ["eu", sent(3, 500, "quota"), None])
    reported.report("b1", "a", ["eu", sent(), None])
    eu = reported.figures()
    assert (eu.topics, eu.stopped, eu.backlog, eu.oldest, eu.causes) == (1, 0, 0, 0, [])
    assert reported.behind() == []


def test_of_a_topic_that_moves_the_newest_report_counts(reported: Reported) -> None:
    reported.report("b1", "a", ["eu", sent(3, 500), None])
    reported.report("b2", "a", ["eu", sent(5, 500), None])
    assert (reported.figures().topics, reported.figures().backlog) == (1, 5)
    reported.gone("b1", "a")  # the previous owner's removal arrives late
    assert reported.figures().backlog == 5
    reported.gone("b2", "a")
    assert reported.index.remotes() == set()
    reported.report("b1", "a", ["eu", sent(1, 500), None])
    assert (reported.figures().topics, reported.figures().backlog) == (1, 1)


def test_figures_of_a_silent_broker_are_as_last_known_and_of_one_without_a_report_unknown(
    reported: Reported,
) -> None:
    reported.report("b1", "a", ["eu", sent(3, 500), None])
    missing = reported.figures(answering=["b1"])
    assert (missing.known, missing.silent, missing.backlog) == (NO, ["b2"], 3)
    reported.report("b2", "b", ["eu", sent(), None])
    late = reported.figures(answering=["b2"])
    assert (late.known, late.silent, late.backlog) == (LAST, ["b1"], 3)


def test_without_a_registered_broker_figures_are_unknown(reported: Reported) -> None:
    figures = figures_of(reported.index, "eu", answering=[], registered=[])
    assert (figures.known, figures.silent) == (NO, [])


def test_an_unknown_age_makes_the_oldest_of_the_link_unknown(reported: Reported) -> None:
    reported.report("b1", "a", ["eu", sent(3, 500), None])
    reported.report("b1", "b", ["eu", sent(1, None), None])
    assert reported.figures().oldest is None


def test_unsent_messages_of_a_topic_that_no_broker_has_loaded_are_kept(reported: Reported) -> None:
    reported.report("b1", "a", ["eu", sent(3, 500), None])
    reported.report("b1", "b", ["eu", sent(), None])
    reported.unloaded |= {T + "a", T + "b"}
    reported.index.forget("b1")
    eu = reported.figures(answering=["b2"])
    assert (eu.topics, eu.backlog, eu.messages) == (1, 3, 0)
    assert [(cause.cause, cause.since) for cause in eu.causes] == [(UNLOADED, reported.now)]
    assert reported.behind() == ["a"]
    reported.report("b2", "a", ["eu", sent(2, 500), None])
    assert (reported.figures().backlog, reported.figures().causes) == (2, [])


def test_a_topic_that_is_not_replicated_any_more_is_not_kept(reported: Reported) -> None:
    reported.report("b1", "a", ["eu", sent(3, 500), None])
    reported.gone("b1", "a")
    assert reported.index.remotes() == set()
    reported.now += KEPT_MS + 1
    assert reported.index.remotes() == set()
    reported.unloaded.add(T + "a")  # too late: it was loaded, and not replicated
    assert reported.index.remotes() == set()


def test_of_equal_causes_the_oldest_is_shown(reported: Reported) -> None:
    reported.report("b1", "a", ["eu", sent(1, 1, "quota", why="first", since=20), None])
    reported.report("b2", "b", ["eu", sent(1, 1, "quota", why="older", since=10), None])
    reported.report("b2", "c", ["eu", sent(1, 1, "rate-limit"), None])
    reported.report("b2", "d", ["eu", sent(1, 1, "of-tomorrow", since=1), None])
    eu = reported.figures()
    assert [(cause.cause, cause.topics, cause.why) for cause in eu.causes] == [
        ("quota", 2, "older"),
        ("rate-limit", 1, ""),
        ("of-tomorrow", 1, ""),
    ]
    assert eu.stopped == 3


def test_all_topics_of_a_link_are_listed_on_request(reported: Reported) -> None:
    reported.report("b1", "a", ["eu", sent(), None])
    reported.report("b1", "b", ["ap", sent(), None], ["eu", None, [1, 1]])
    links = list(reported.index.topics("eu", all_topics=True))
    assert [(link.topic, link.broker) for link in links] == [(T + "a", "b1")]
    assert reported.index.of_topics([T + "a", T + "x"]).keys() == {T + "a"}
