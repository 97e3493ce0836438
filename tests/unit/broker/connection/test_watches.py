"""Watchers of topics: their updates add up to the matching topics, however fast these change and slow the client is."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.auth.judge import AllowAll
from engine.base.names import NamespaceName
from engine.broker.connection.patterns import topics_hash
from engine.broker.connection.watches import WatchCommands, _Watch
from engine.broker.control.topic_lists import TopicLists
from engine.broker.errors import BrokerError, InvalidTopicName, NotAllowed
from engine.broker.settings import DataPathSettings
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ProtocolViolation
from tests.support.broker_bench import Client, Everything, commands_in, until

pytestmark = pytest.mark.virtual_time

START = "persistent://public/default/"


class Watching(Client):
    """Client that keeps the list of topics its watchers' updates add up to."""

    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.everything = Everything()
        self.lists = TopicLists(self.everything)
        self.family = WatchCommands(self, self.lists, DataPathSettings(**settings), AllowAll())  # type: ignore[arg-type]
        self.known: set[str] = set()
        self.updates = 0

    def send(self, data: bytes) -> None:
        for command in commands_in(data):
            update = command.watchTopicUpdate
            new, gone = set(update.new_topics), set(update.deleted_topics)
            assert not new & self.known
            assert gone <= self.known
            self.known = (self.known | new) - gone
            assert topics_hash(list(self.known)) == update.topics_hash
            self.updates += 1

    async def ask(
        self, pattern: str = f"{START}t-.*", digest: str = "", namespace: str = "public/default"
    ) -> pb.CommandWatchTopicListSuccess:
        body = pb.CommandWatchTopicList(
            request_id=1, watcher_id=3, namespace=namespace, topics_pattern=pattern
        )
        if digest:
            body.topics_hash = digest
        (command,) = commands_in(await self.family.watch(body))
        self.known = set(command.watchTopicListSuccess.topic)
        return command.watchTopicListSuccess

    def change(self, *names: str) -> None:
        self.everything.listed = [START + name for name in names]
        for callback in list(self.everything.watchers.values()):
            callback()


@pytest.fixture
async def client() -> AsyncIterator[Watching]:
    made = Watching()
    yield made
    await made.lists.close()


async def test_a_watcher_receives_the_matching_topics_and_each_change(client: Watching) -> None:
    client.change("t-1", "other", "t-2-partition-0")
    answer = await client.ask()
    assert list(answer.topic) == [START + "t-1", START + "t-2-partition-0"]
    assert answer.topics_hash == topics_hash(list(answer.topic))
    client.change("t-2-partition-0", "t-3", "another")
    await until(lambda: client.known == {START + "t-2-partition-0", START + "t-3"})
    assert client.updates == 1


async def test_names_that_the_client_knows_are_not_sent(client: Watching) -> None:
    client.change("t-1")
    answer = await client.ask(digest=topics_hash([START + "t-1"]))
    assert list(answer.topic) == []


async def test_changes_for_a_client_that_does_not_read_are_merged_into_one_update(
    client: Watching,
) -> None:
    await client.ask()
    client.can_send = False
    (followed,) = client.lists._followed.values()
    for names in (("t-1", "t-2"), ("t-2", "t-3"), ("t-3",)):
        client.change(*names)
        await until(
            lambda: followed.names == set(client.everything.listed) and followed.notifying is None
        )
    assert client.updates == 0
    client.can_send = True
    client.family.wake()
    assert (client.known, client.updates) == ({START + "t-3"}, 1)


async def test_a_closed_watcher_receives_no_updates(client: Watching) -> None:
    await client.ask()
    await client.family.unwatch(pb.CommandWatchTopicListClose(request_id=2, watcher_id=3))
    assert client.everything.watchers == {}
    await client.ask()
    client.family.disconnected()
    assert client.everything.watchers == {}


@pytest.mark.parametrize(
    ("settings", "pattern", "refusal", "text"),
    [
        ({}, "x" * 51, NotAllowed, "Pattern longer than maximum: 50"),
        (
            {"enable_broker_side_subscription_pattern_evaluation": False},
            "x",
            NotAllowed,
            "Evaluating subscription patterns is disabled",
        ),
        ({}, "(?!a)b", NotAllowed, "too complex"),
        ({}, "([bad", InvalidTopicName, "Invalid topics pattern"),
    ],
)
async def test_an_invalid_or_disabled_pattern_is_refused(
    settings: dict[str, object], pattern: str, refusal: type[BrokerError], text: str
) -> None:
    client = Watching(**settings)
    with pytest.raises(refusal, match=text):
        await client.ask(pattern)
    assert client.everything.watchers == {}


async def test_an_invalid_namespace_ends_the_connection(client: Watching) -> None:
    with pytest.raises(ProtocolViolation):
        await client.ask(namespace="bad")


NAMES = st.sets(st.sampled_from([f"{START}{kind}-{i}" for kind in "tu" for i in range(3)]))


@given(st.lists(NAMES, min_size=2, max_size=6), st.integers(0, 5), st.data())
def test_updates_add_up_to_the_matching_topics(
    lists: list[set[str]], begun: int, data: st.DataObject
) -> None:
    """Apply ``begun`` changes before the client has its answer, and the others after it."""
    client = Watching()
    watch = _Watch(client, 3, NamespaceName.parse("public/default"), f"{START}t-.*")
    matching = {name for name in lists[0] if "/t-" in name}
    for at, (before, after) in enumerate(pairwise(lists)):
        if at == min(begun, len(lists) - 2):
            watch.begin(sorted(matching))
            client.known = matching
        client.can_send = data.draw(st.booleans())
        asyncio.run(watch.changed(after - before, before - after))
    client.can_send = True
    watch.send_changes()
    assert client.known == {name for name in lists[-1] if "/t-" in name}
