"""Feeds: watchers of equal parameters share one producer, also when its body fails or a watcher is slow."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from channels.layers import get_channel_layer

from admin_ui import feeds
from admin_ui.feeds import Channel, Feeds, FeedWatch
from admin_ui.params import Params
from engine.auth.rights import PUBLIC
from engine.auth.viewer import ALL, Viewer
from engine.base.errors import NotFound
from gateway.clusters.cluster import Cluster
from gateway.http.bodies import JsonText
from tests.support.admin.clusters import cluster_without_link
from tests.support.waiting import stays

INTERVAL_S = 0.01
TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def feeds_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "feeds", Feeds(cluster_without_link()), raising=False)


class Source:
    """A body that the test sets, with the parameters of its calls."""

    def __init__(self) -> None:
        self.value: Any = 0
        self.error: Exception | None = None
        self.asked: list[Params] = []
        self.viewers: list[Viewer] = []

    async def body(self, viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
        self.asked.append(params)
        self.viewers.append(viewer)
        if self.error is not None:
            raise self.error
        return {"at": len(self.asked), "value": self.value}

    def channel(self, **options: Any) -> Channel:
        return Channel(
            "test", self.body, PUBLIC, optional=("q",), **{"interval_s": INTERVAL_S, **options}
        )


class Watcher:
    """A client that watches a channel."""

    feeds: ClassVar[Feeds]
    """Feeds of the running test."""

    def __init__(
        self, channel: Channel, params: Params | None = None, viewer: Viewer = ALL
    ) -> None:
        self._wake = asyncio.Event()
        self.watch: FeedWatch = self.feeds.watch(viewer, channel, params or {}, self._wake)

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(TIMEOUT_S):
            while (text := self.watch.take_message()) is None:
                self._wake.clear()
                await self._wake.wait()
        message: dict[str, Any] = json.loads(f"{{{text}}}")
        return message

    async def value(self) -> Any:
        return (await self.receive())["data"]["value"]


async def until_asked(source: Source, times: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while len(source.asked) < times:
            await asyncio.sleep(INTERVAL_S)


async def test_watchers_of_equal_parameters_share_one_producer() -> None:
    source = Source()
    channel = source.channel(interval_s=60.0)
    watchers = [Watcher(channel, {"q": "a"}) for _ in range(3)]
    assert [await watcher.value() for watcher in watchers] == [0, 0, 0]
    late = Watcher(channel, {"q": "a"})
    assert await late.value() == 0, "a later watcher receives the newest value at once"
    assert source.asked == [{"q": "a"}]
    other = Watcher(channel, {"q": "b"})
    await other.value()
    assert source.asked == [{"q": "a"}, {"q": "b"}]
    for watcher in (*watchers, late, other):
        await watcher.watch.end()


async def test_a_body_made_for_one_viewer_is_not_sent_to_another() -> None:
    some = Viewer(frozenset({"t/n"}))

    async def body(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
        return {"value": sorted(viewer.namespaces) if not viewer.everything else "all"}

    channel = Channel("test", body, PUBLIC, optional=("q",), interval_s=INTERVAL_S)
    watchers = [Watcher(channel, viewer=viewer) for viewer in (ALL, some, Viewer())]
    assert [await watcher.value() for watcher in watchers] == ["all", ["t/n"], []]
    assert len(Watcher.feeds) == 3
    for watcher in watchers:
        await watcher.watch.end()
    assert len(Watcher.feeds) == 0


async def test_equal_viewers_share_one_producer() -> None:
    source = Source()
    channel = source.channel(interval_s=60.0)
    viewers = [Viewer(frozenset({"t/n", "t/m"})), Viewer(frozenset({"t/m", "t/n"}))]
    watchers = [Watcher(channel, viewer=viewer) for viewer in viewers]
    assert [await watcher.value() for watcher in watchers] == [0, 0]
    assert source.viewers == viewers[:1]
    for watcher in watchers:
        await watcher.watch.end()


async def test_a_producer_runs_until_the_last_watcher_leaves_and_starts_again() -> None:
    source = Source()
    channel = source.channel()
    first, last = Watcher(channel), Watcher(channel)
    await first.value()
    await first.watch.end()
    await until_asked(source, len(source.asked) + 2)
    await last.watch.end()
    asked = len(source.asked)
    await stays(lambda: len(source.asked) == asked, 5 * INTERVAL_S)
    source.value = 1
    again = Watcher(channel)
    assert await again.value() == 1
    await again.watch.end()


async def test_unchanged_values_are_not_sent() -> None:
    source = Source()
    watcher = Watcher(source.channel())
    await watcher.value()
    await until_asked(source, 4)
    assert watcher.watch.take_message() is None, "equal numbers at another time are not sent"
    source.value = 1
    assert await watcher.value() == 1
    await watcher.watch.end()


async def test_a_failing_body_is_reported_once_and_retried() -> None:
    source = Source()
    source.error = NotFound("No such topic")
    watcher = Watcher(source.channel())
    assert await watcher.receive() == {"error": {"reason": "No such topic"}}
    await until_asked(source, 4)
    assert watcher.watch.take_message() is None
    source.error = ValueError("a bug with a secret in it")
    reason = "An unexpected error occurred in the gateway"
    assert await watcher.receive() == {"error": {"reason": reason}}
    source.error = None
    assert await watcher.value() == 0
    await watcher.watch.end()


async def test_a_slow_watcher_delays_no_other_and_receives_only_the_newest_value() -> None:
    source = Source()
    channel = source.channel()
    slow, quick = Watcher(channel), Watcher(channel)
    for value in range(3):
        source.value = value
        assert await quick.value() == value
    assert await slow.value() == 2
    assert slow.watch.take_message() is None
    await slow.watch.end()
    await quick.watch.end()


class ChangingBasis:
    """A basis that the test changes, with its subscribers."""

    def __init__(self) -> None:
        self.now = 0
        self.watchers: list[Callable[[], None]] = []

    @property
    def version(self) -> object:
        return self.now

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(changed)
        return lambda: self.watchers.remove(changed)

    def change(self) -> None:
        self.now += 1
        for changed in self.watchers:
            changed()


async def test_without_a_new_basis_no_body_is_built() -> None:
    source, basis = Source(), ChangingBasis()
    watcher = Watcher(source.channel(basis=lambda _: basis))
    await watcher.value()
    source.value = 1
    await stays(lambda: len(source.asked) == 1, 2 * feeds.GAP_S)
    basis.change()
    assert await watcher.value() == 1
    await watcher.watch.end()
    assert basis.watchers == []


async def test_a_change_is_sent_at_once_and_not_at_the_next_interval() -> None:
    source, basis = Source(), ChangingBasis()
    watcher = Watcher(source.channel(basis=lambda _: basis, interval_s=3600.0))
    await watcher.value()
    for value in (1, 2, 3):
        source.value = value
        basis.change()
        assert await watcher.value() == value
    await watcher.watch.end()


async def test_changes_of_time_fields_alone_are_not_sent() -> None:
    source, basis = Source(), ChangingBasis()
    watcher = Watcher(source.channel(basis=lambda _: basis))
    await watcher.value()
    source.value = {"at": 1, "rows": [{"at": 2}]}
    basis.change()
    assert await watcher.value() == source.value
    source.value = {"at": 3, "rows": [{"at": 4}]}
    basis.change()
    await until_asked(source, 3)
    assert watcher.watch.take_message() is None
    source.value = '"at":5'
    basis.change()
    assert await watcher.value() == '"at":5'
    source.value = '"at":6'
    basis.change()
    assert await watcher.value() == '"at":6'
    await watcher.watch.end()


async def test_the_body_decides_whether_a_written_text_is_new() -> None:
    made = [JsonText(at, f'{{"at":{at},"n":{at // 3}}}', at // 3) for at in range(1, 5)]
    basis, asked = ChangingBasis(), 0

    async def body(viewer: Viewer, cluster: Cluster, params: Params) -> JsonText:
        nonlocal asked
        asked += 1
        return made[asked - 1]

    watcher = Watcher(Channel("test", body, PUBLIC, basis=lambda _: basis))
    assert (await watcher.receive())["data"] == {"at": 1, "n": 0}
    basis.change()
    async with asyncio.timeout(TIMEOUT_S):
        while asked < 2:
            await asyncio.sleep(INTERVAL_S)
    assert watcher.watch.take_message() is None
    basis.change()
    assert await watcher.receive() == {"channel": "test", "at": 3, "data": {"at": 3, "n": 1}}
    await watcher.watch.end()


async def test_a_feed_listens_again_after_its_layer_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LISTEN_AGAIN_S", 0.0)
    layer, added = get_channel_layer(), asyncio.Event()
    group_add, failures = layer.group_add, [ConnectionError("Redis is away")]

    async def add(group: str, name: str) -> None:
        if failures:
            raise failures.pop()
        await group_add(group, name)
        added.set()

    monkeypatch.setattr(layer, "group_add", add)
    source = Source()
    channel = source.channel(group=lambda params: f"run.{params['q']}", interval_s=2.0)
    watcher = Watcher(channel, {"q": "2"})
    await watcher.value()
    async with asyncio.timeout(TIMEOUT_S):
        await added.wait()
    await until_asked(source, 2)  # the body is unchanged, so the feed pauses
    source.value = 1
    await layer.group_send("run.2", {"type": "run.changed", "id": "2"})
    assert await watcher.value() == 1
    await watcher.watch.end()


async def test_a_message_to_its_group_wakes_a_pausing_feed() -> None:
    source = Source()
    channel = source.channel(group=lambda params: f"run.{params['q']}", interval_s=2.0)
    watcher = Watcher(channel, {"q": "1"})
    await watcher.value()
    await until_asked(source, 2)  # the body is unchanged, so the feed pauses
    source.value = 1
    started = asyncio.get_running_loop().time()
    await get_channel_layer().group_send("run.1", {"type": "run.changed", "id": "1"})
    assert await watcher.value() == 1
    assert asyncio.get_running_loop().time() - started < 1.0
    await watcher.watch.end()


async def test_a_feed_ends_although_redis_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a watch within ``LEAVE_S``: unsubscribing and disconnecting wait for it."""
    layer, left = get_channel_layer(), asyncio.Event()

    async def never(group: str, name: str) -> None:
        left.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(layer, "group_discard", never)
    monkeypatch.setattr(feeds, "LEAVE_S", 0.01)
    source = Source()
    watcher = Watcher(source.channel(group=lambda params: f"run.{params['q']}"), {"q": "1"})
    await watcher.value()
    async with asyncio.timeout(60):
        await watcher.watch.end()
    assert left.is_set()
