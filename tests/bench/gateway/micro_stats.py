"""CPU and memory of the console's numbers, by 10,000 topics: in the broker that counts and sends them, in the gateway
that indexes them, and of a window of the list that is watched.

Run: python -m tests.bench.gateway.micro_stats [--topics 10000] [--seconds 30]

The topics are loaded over a real bookie, with a subscription each. A second is a count, an answer, and its reading, as
often as asked for; what HTTP adds is measured by itself. Memory is what tracemalloc finds.
"""

import argparse
import asyncio
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from engine.admin.api.rows import TOPIC_ROWS, RowsSince
from engine.admin.client import AdminClient, BrokerAddress
from engine.auth.viewer import ALL
from engine.base.names import TopicName
from engine.broker.administration import change_feed
from engine.broker.administration.topic_feed import TopicFeed
from engine.broker.errors import BrokerError
from engine.broker.topics.topic import Topic
from engine.managed.ledger import InitialPosition
from engine.metadata.memory import MemoryServer
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from gateway.services.feeds.row_list import RowList
from gateway.services.index.selection import Chosen
from gateway.services.index.topic_index import TopicIndex
from tests.support.broker_bench import Bench, opened

WINDOW = 100
AT_ONCE = 4
ATTEMPTS_MAX = 20
CALLS = 300


async def load(bench: Bench, count: int) -> list[Topic]:
    """``count`` topics of one namespace, with a subscription each."""
    names = iter(
        TopicName.parse(f"persistent://public/default/topic-{i:06d}") for i in range(count)
    )
    made: list[Topic] = []

    async def worker() -> None:
        for name in names:
            for attempt in range(ATTEMPTS_MAX):
                try:
                    topic = await bench.registry.get(name, create=True)
                    await topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
                    break
                except BrokerError:  # a busy machine: its session suffered
                    if attempt + 1 == ATTEMPTS_MAX:
                        raise
                    await asyncio.sleep(1)
            made.append(topic)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return made


class Costs:
    """Seconds of CPU by what they were spent on."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def of(self, what: str, work: Callable[[], object]) -> object:
        began = time.process_time()
        result = work()
        self.spent[what] = self.spent.get(what, 0.0) + time.process_time() - began
        return result

    def report(self, title: str, seconds: int, sent_bytes: int) -> None:
        parts = ", ".join(
            f"{what} {spent / seconds * 1e3:.2f}" for what, spent in self.spent.items()
        )
        print(f"{title:<34} {parts} ms a second; {sent_bytes // seconds} bytes a second")


async def seconds_of(
    title: str,
    seconds: int,
    bench: Bench,
    feed: TopicFeed,
    index: TopicIndex,
    busy: Iterable[Topic],
) -> None:
    """Measure some seconds in which the ``busy`` topics are published to."""
    costs, sent_bytes = Costs(), 0
    asked = RowsSince(feed._incarnation, feed._log.revision)
    for _ in range(seconds):
        for topic in busy:
            topic.published.messages.total += 50
            topic.published.bytes.total += 50_000
            topic.touched()
        costs.of("count", lambda: feed.count(bench.registry.counters.tick(1.0)))
        began = time.process_time()
        answer = await feed.since(asked)
        body = json_response(200, {"result": answer}).body
        costs.spent["send"] = costs.spent.get("send", 0.0) + time.process_time() - began
        sent_bytes += len(body)
        result = json.loads(body)["result"]
        costs.of("index", partial(receive, index, body))
        costs.of("window", lambda: window(index))
        asked = RowsSince(result["incarnation"], result["revision"], result["begun"])
    costs.report(title, seconds, sent_bytes)


def apply(index: TopicIndex, answer: dict[str, Any]) -> None:
    for changes in RowList(lambda: index.reported("b")).changes(answer):
        index.apply("b", changes)


def receive(index: TopicIndex, body: bytes) -> None:
    apply(index, json.loads(body)["result"])


def window(index: TopicIndex) -> str:
    """Return the rows that a feed of the list sends for the first page, as JSON."""
    names = index.select(ALL, Chosen(sort="-msg_rate_in")).names(0, WINDOW)
    standing = index.select(ALL, Chosen(standing=True)).names(0, 20)
    rows = [index.row(name, 0) for name in [*names, *standing]]
    return json.dumps({"rows": rows, "totals": index.sums.totals(ALL)})


async def whole(feed: TopicFeed, index: TopicIndex) -> None:
    """Measure what a gateway receives at its start."""
    asked, sent_bytes, began = RowsSince(), 0, time.process_time()
    while True:
        answer = await feed.since(asked)
        body = json_response(200, answer).body
        sent_bytes += len(body)
        result = json.loads(body)
        apply(index, result)
        asked = RowsSince(result["incarnation"], result["revision"], result["begun"])
        if not result["more"]:
            break
    print(
        f"{'everything, once':<34} {(time.process_time() - began) * 1e3:.0f} ms, {sent_bytes} bytes"
    )


async def over_http(feed: TopicFeed) -> None:
    """Measure both sides of a call without changes."""
    asked = RowsSince(feed._incarnation, feed._log.revision, feed._log.revision)

    async def answer(request: Request) -> Response:
        changes = feed._log.since(asked.revision, asked.begun)
        return json_response(200, {"result": changes._asdict()})

    server = HttpServer(LoopNetwork(), answer, connections_max=10)
    port = await server.listen("127.0.0.1", 0)
    admin = AdminClient(MemoryServer().session(), LoopNetwork(), "a-token-of-some-length")
    broker = BrokerAddress("b", f"http://127.0.0.1:{port}", "")
    began = time.process_time()
    for _ in range(CALLS):
        await admin.call_on(broker, TOPIC_ROWS, asked)
    cost = (time.process_time() - began) / CALLS * 1e3
    print(f"{'HTTP, both sides':<34} {cost:.2f} ms a call")
    admin.close()
    await server.close()


def grown(before: int) -> float:
    return (tracemalloc.get_traced_memory()[0] - before) / 1e6


async def measure(directory: Path, count: int, seconds: int) -> None:
    change_feed.WAIT_MAX_S = 0.0  # no call here waits for the next count
    async with opened(directory) as bench:
        topics = await load(bench, count)
        feed, index = TopicFeed(bench.registry, bench.context.clock, "b-1"), TopicIndex()
        for _ in range(90):
            bench.registry.counters.tick(1.0)
        for topic in topics:
            topic.touched()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        feed.count(bench.registry.counters.tick(1.0))
        print(f"{'broker: rows':<34} {grown(before):.1f} MB")
        answers = [await feed.since(RowsSince())]
        while answers[-1]["more"]:
            last = answers[-1]
            asked = RowsSince(last["incarnation"], last["revision"], last["begun"])
            answers.append(await feed.since(asked))
        texts = [json.dumps(answer) for answer in answers]
        before = tracemalloc.get_traced_memory()[0]
        for text in texts:
            apply(index, json.loads(text))
        print(f"{'gateway: index':<34} {grown(before):.1f} MB")
        before = tracemalloc.get_traced_memory()[0]
        window(index)
        print(f"{'gateway: two orders of the list':<34} {grown(before):.1f} MB")
        tracemalloc.stop()
        await whole(feed, TopicIndex())
        await seconds_of("idle", seconds, bench, feed, index, ())
        await seconds_of("1 % of topics published to", seconds, bench, feed, index, topics[::100])
        await seconds_of("all topics published to", seconds, bench, feed, index, topics)
        await over_http(feed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(measure(Path(made), given.topics, given.seconds))
