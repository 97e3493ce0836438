"""Sums and lists of the index for viewers who see some namespaces."""

import math
import random
from typing import Any

import pytest

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.auth.viewer import ALL, Viewer
from engine.base.names import split_topic
from gateway.services.feeds.row_list import RowChanges
from gateway.services.index import seen_topics
from gateway.services.index.rows import LAST, NO
from gateway.services.index.selection import Chosen
from gateway.services.index.sums import SORTED_BY, figure_without_topics
from gateway.services.index.topic_index import TopicIndex

TENANTS = ("a", "b", "old/west")
SPACES = tuple(f"{tenant}/{local}" for tenant in TENANTS for local in ("n", "m", "o"))
NAMES = tuple(f"persistent://{space}/t{number}" for space in SPACES for number in range(3))
CHOICES = (
    Chosen(sort="-backlog"),
    Chosen(),
    Chosen(q="t1", sort="-msg_rate_in"),
    Chosen(tenant="a", sort="name"),
    Chosen(namespace="n", sort="-name"),
)


def viewers(rng: random.Random) -> list[Viewer]:
    """Return viewers of nothing, of one namespace, of random ones, of tenants, and of everything."""
    spaces = frozenset(rng.sample(SPACES, rng.randrange(1, 5)))
    tenant = frozenset({rng.choice(("a", "b", "old", "nobody"))})
    return [Viewer(), Viewer(frozenset({"a/n"})), Viewer(spaces), Viewer(spaces, tenant), ALL]


def changed(index: TopicIndex, rng: random.Random, turn: int) -> None:
    """Change some topics as brokers and the metadata store do."""
    rows = [
        [name, *(rng.choice((0, None, rng.randrange(1, 9_000))) for _ in ROW_COLUMNS)]
        for name in rng.sample(NAMES, 5)
    ]
    gone = [name for name in rng.sample(NAMES, 2) if name not in {row[0] for row in rows}]
    index.apply(rng.choice(("b:1", "b:2")), RowChanges(turn, rows, gone))
    if turn % 5 == 0:
        index.catalog({rng.choice(NAMES): rng.choice((0, 2))}, rng.sample(NAMES, 2))
    if turn % 11 == 0:
        list(index.set_silent("b:1", turn % 2 == 0))
    if turn % 31 == 0:
        list(index.forget("b:2"))


def check(index: TopicIndex, viewer: Viewer) -> None:
    shown = [topic for topic in index if viewer.sees_topic(topic.name)]
    totals = index.sums.totals(viewer)
    for column, name in enumerate(ROW_COLUMNS):
        if name != "oldest_at":
            total = sum(topic.values[column] or 0 for topic in shown)
            assert totals[name] == (total / 1000 if "rate" in name else total), (viewer, name)
    assert totals["topics"] == len(shown)
    assert totals["unknown"] == sum(topic.known == NO for topic in shown)
    assert totals["last"] == sum(topic.known == LAST for topic in shown)
    oldest = min((topic.values[-1] for topic in shown if topic.values[-1]), default=0)
    assert index.sums.oldest(viewer) == (None if oldest == OLDEST_UNKNOWN else oldest)
    for tenant in ("a", "b", "old", "nobody"):
        of_it = [topic for topic in shown if split_topic(topic.name).tenant == tenant]
        numbers = index.sums.of_tenant(viewer, tenant)
        backlog = ROW_COLUMNS.index("backlog")
        assert numbers["topics"] == len(of_it)
        assert numbers["unknown"] == sum(topic.known == NO for topic in of_it)
        assert numbers["backlog"] == sum(topic.values[backlog] or 0 for topic in of_it)
    check_namespaces(index, viewer)
    for chosen in CHOICES:
        whole = index.select(ALL, chosen).names()
        seen = [name for name in whole if viewer.sees_topic(name)]
        assert index.select(viewer, chosen).names() == seen, (viewer, chosen)


def check_namespaces(index: TopicIndex, viewer: Viewer) -> None:
    """Check the numbers that namespaces are sorted by, and their largest topics, against their sums and topics."""
    for tenant in ("a", "b", "old"):
        for field in SORTED_BY:
            figures = index.sums.figures_of_namespaces(viewer, tenant, field)
            for local, figure in figures.items():
                numbers = index.sums.of_namespace(viewer, f"{tenant}/{local}")
                if field == "oldest_age":
                    assert figure == -(numbers["oldest_at"] or math.inf)
                else:
                    name = "backlog_messages" if field == "backlog" else field
                    value = numbers[name]  # type: ignore[literal-required]
                    assert figure == round(value * (1000 if "rate" in field else 1))
            seen = {split_topic(topic.name).scope for topic in index}
            assert {f"{tenant}/{local}" for local in figures} == {
                scope for scope in seen if scope.startswith(f"{tenant}/") and viewer.sees(scope)
            }
    storage = ROW_COLUMNS.index("storage_bytes")
    for scope, largest in index.largest_stored(viewer, SPACES[:4]).items():
        assert viewer.sees(scope)
        stored = [t.values[storage] for t in index if split_topic(t.name).scope == scope]
        assert largest == max((value for value in stored if value is not None), default=None)


def test_a_viewer_gets_the_sums_and_lists_of_what_it_sees_after_any_changes() -> None:
    for seed in range(5):
        rng, index = random.Random(seed), TopicIndex()
        watching = viewers(rng)
        for turn in range(1, 60):
            changed(index, rng, turn)
            if turn == 30:
                list(index.become_complete())
            for viewer in rng.sample(watching, 2):
                check(index, viewer)
        for viewer in (*watching, *viewers(rng)):
            check(index, viewer)
        index.apply("b:1", RowChanges(99, [], list(NAMES)))
        index.apply("b:2", RowChanges(99, [], list(NAMES)))
        index.catalog({}, [*NAMES])
        assert index.sums._by_tenant == {}, "a namespace without topics is not kept"


def test_windows_of_a_viewer_are_parts_of_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix_max in (0, 3, 1000):
        monkeypatch.setattr(seen_topics, "PREFIX_MIN", 2)
        monkeypatch.setattr(seen_topics, "PREFIX_MAX", prefix_max)
        rng, index = random.Random(prefix_max), TopicIndex()
        watching = viewers(rng)
        for turn in range(1, 40):
            changed(index, rng, turn)
            for viewer in watching:
                for chosen in CHOICES:
                    seen = [n for n in index.select(ALL, chosen).names() if viewer.sees_topic(n)]
                    for _ in range(3):
                        start, stop = rng.randrange(5), rng.randrange(9)
                        names = index.select(viewer, chosen).names(start, stop)
                        assert names == seen[start:stop]
                    assert len(index.select(viewer, chosen)) == len(seen)


def test_viewers_share_one_order_of_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []

    class Counted(seen_topics.TopicSelection):
        def __init__(self, *given: Any) -> None:
            built.append(given)
            super().__init__(*given)

    monkeypatch.setattr(seen_topics, "TopicSelection", Counted)
    index = TopicIndex()
    index.apply("b:1", RowChanges(1, [[name, *(0 for _ in ROW_COLUMNS)] for name in NAMES], []))
    for namespaces in ({"a/n", "b/n"}, {"b/n", "b/m"}, {"a/n", "b/m"}):
        index.select(Viewer(frozenset(namespaces)), Chosen())
    assert len(built) == 3
    for _ in range(2):
        index.drop_unused()
    assert index._orders is None, "orders that no viewer requests are not updated"


def test_sums_of_a_viewer_are_added_over_its_namespaces_alone() -> None:
    index = TopicIndex()
    rows = [[name, *(1 for _ in ROW_COLUMNS)] for name in NAMES]
    index.apply("b:1", RowChanges(1, rows, []))
    viewer = Viewer(frozenset({"a/n", "a/none", "nobody/n"}), frozenset({"b"}))
    names = [sums.namespace for sums in index.sums._seen(viewer)]
    assert sorted(names) == ["a/n", "b/m", "b/n", "b/o"]


def test_a_narrower_selection_of_another_viewer_is_not_searched() -> None:
    index = TopicIndex()
    index.apply("b:1", RowChanges(1, [[name, *(0 for _ in ROW_COLUMNS)] for name in NAMES], []))
    few = Viewer(frozenset({"a/n"}))
    assert len(index.select(few, Chosen())) == 3
    other = Viewer(frozenset({"b/n"}))
    assert index.select(other, Chosen(q="t")).names() == [n for n in NAMES if "//b/n/" in n]
    assert len(index.select(ALL, Chosen(q="t"))) == len(NAMES)


def test_a_namespace_without_topics_is_sorted_below_those_with() -> None:
    assert figure_without_topics("oldest_age") == -math.inf
    assert {figure_without_topics(f) for f in SORTED_BY if f != "oldest_age"} == {0}
