"""Items about links to other clusters: one for each link that stands still, with its cause and a next step."""

import pytest

from engine.admin.link_causes import LinkCause
from engine.auth.viewer import ALL, Viewer
from gateway.services.attention.link_items import WAIT_MS, broken_links, link_item
from gateway.services.attention.part_items import Instance, Item
from gateway.services.geo.link_figures import ORDER, Cause, LinkFigures
from gateway.services.geo.link_index import UNLOADED, Sent, TopicLink
from gateway.services.index.rows import LIVE
from tests.support.admin.board_console import Console

NOW = 1_000_000


def link(*causes: Cause, topics: int = 4) -> LinkFigures:
    stopped = sum(cause.topics for cause in causes)
    return LinkFigures("eu", topics, stopped, 9, 1, 0, 0, [*causes], 0, 0, 0, LIVE, [], NOW)


def cause(name: str, topics: int = 1, since: int = NOW - WAIT_MS) -> Cause:
    return Cause(name, topics, "persistent://t/n/a", f"why {name}", since)


@pytest.mark.parametrize("name", [*LinkCause, UNLOADED, "of-tomorrow"])
def test_each_cause_but_two_makes_an_item_with_a_next_step(name: str) -> None:
    broken = broken_links([link(cause(name))], NOW)
    if name in (LinkCause.RATE_LIMIT, LinkCause.CONNECTING):
        assert broken == []
        return
    item = link_item(broken[0], "us")
    assert item["title"].startswith("Replication: eu ")
    assert item["advice"].endswith(".")
    assert item["detail"] == f"1 of 4 topics is not sent · t/n/a: why {name}"
    assert item["link"] == "/c/us/geo/eu"


def test_a_reconnection_is_no_problem() -> None:
    assert broken_links([link(cause("unreachable", since=NOW - WAIT_MS + 1))], NOW) == []


def test_several_causes_of_a_link_are_one_item_which_begins_with_the_first() -> None:
    causes = cause("rights", since=NOW - 9_000), cause("unreachable", 3, since=NOW - 60_000)
    [broken] = broken_links([link(*causes)], NOW)
    item = link_item(broken, "us")
    assert item["title"] == (
        "Replication: eu does not accept the credentials of this cluster, or they have too few rights"
    )
    assert item["detail"] == "4 of 4 topics are not sent · also 3 × unreachable · t/n/a: why rights"
    assert (item["severity"], item["since"]) == ("error", NOW - 60_000)


def test_the_order_of_causes_has_each_of_them() -> None:
    assert set(ORDER) == {*LinkCause, UNLOADED}


def overview(console: Console, links: list[LinkFigures], viewer: Viewer = ALL) -> list[Item]:
    """Return the items, of an index with one topic of tenant ``t`` and two of ``u`` that are behind."""
    console.board.round(console.topics, NOW, whole=True, links=links)
    instance = Instance((), console.brokers, console.bookies)
    behind = [
        TopicLink(f"persistent://{name}", "b:1", Sent(9, 1, 0, 0, reason, f"why {reason}", since))
        for name, reason, since in (
            ("t/n/a", "quota", NOW - WAIT_MS),
            ("u/n/b", "schema", NOW - WAIT_MS),
            ("u/n/c", "schema", NOW - 2 * WAIT_MS),
        )
    ]
    return console.board.overview(
        viewer, "us", NOW, known=True, instance=instance, behind=lambda _: behind
    )["items"]


def test_a_broken_link_is_shown_until_it_is_whole(console: Console) -> None:
    broken = [link(cause("schema", 2), cause("quota"))]
    assert [item["cause"] for item in overview(console, broken)] == ["link-eu"]
    assert overview(console, [link()]) == []


def test_a_viewer_of_some_tenants_sees_the_causes_of_their_topics_alone(console: Console) -> None:
    broken = [link(cause("schema", 2), cause("quota"))]
    [item] = overview(console, broken, Viewer(tenants=frozenset({"t"})))
    assert item["title"] == "Replication: eu has reached a backlog quota"
    assert item["detail"] == "1 topic is not sent · t/n/a: why quota"
    assert (item["severity"], item["link"]) == ("warning", "/c/us/geo/eu")
    [item] = overview(console, broken, Viewer(tenants=frozenset({"u"})))
    assert item["detail"] == "2 topics are not sent · u/n/c: why schema"
    assert overview(console, broken, Viewer(tenants=frozenset({"v"}))) == []
