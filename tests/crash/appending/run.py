"""``python -m tests.crash.appending.run [--minutes 10]``: lists in topics, changed in transactions by workers, while
brokers, bookies and the coordinators' brokers are killed or stand still all the time; then no anomaly may be anomalous.

Three brokers and three bookies of one instance, two coordinators, real processes. Prints a table; status 1 when the
history has an anomaly: G0, G1a, G1b, G1c, G2, a lost update, a lost or repeated append, a list that is not
acknowledged exactly once.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.wire.batches import Message, pack_entry
from tests.crash.appending.anomalies import Appending, Outcome, anomalies
from tests.crash.appending.clients import (
    SUBSCRIPTION,
    TIMEOUTS_MS,
    Collector,
    Reader,
    Worker,
    content_of,
)
from tests.support.instance import Instance, running_instance

MEMBERS = 3
TOPICS = [f"persistent://public/default/list-{i}" for i in range(6)]
WORKERS = 4
COORDINATORS = 2
BLOWS_S = (2.0, 8.0)
"""Time between blows."""
STILL_S = (1.0, 12.0)
"""Time for which a process stands still."""
SETTLE_S = 180.0
KINDS = ("kill broker", "kill bookie", "kill coordinator", "still broker", "still bookie")


class Blows:
    """Faults of an instance, one at a time, drawn from a seed."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self._instance = instance
        self._rng = random.Random(seed)
        self.done: Counter[str] = Counter()

    async def strike(self) -> str:
        """Strike once; return the kind, once the part runs again."""
        kind = self._rng.choice(KINDS)
        verb, _, what = kind.partition(" ")
        name = f"{what}-{self._rng.randint(1, MEMBERS)}"
        if what == "coordinator":
            name = await asyncio.to_thread(self._broker_of_coordinator)
        instance = self._instance
        if verb == "still":
            pid = (await asyncio.to_thread(instance.child, name))["pid"]
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(self._rng.uniform(*STILL_S))
            with suppress(ProcessLookupError):  # the supervisor may have ended it
                os.kill(pid, signal.SIGCONT)
        else:
            await asyncio.to_thread(instance.kill, name)
        await asyncio.to_thread(instance.wait_running, name)
        self.done[kind] += 1
        return f"{kind} {name}"

    def _broker_of_coordinator(self) -> str:
        """Return the broker of one of the coordinators; any broker while that is not known."""
        with suppress(OSError, TypeError, LookupError):
            rows = self._instance.rest("GET", "/admin/v3/transactions/coordinators")[1]
            url = self._rng.choice(rows)["brokerServiceUrl"]
            for n in range(1, MEMBERS + 1):
                port = self._instance.child(f"broker-{n}")["ports"]["pulsar"]
                if url.endswith(f":{port}"):
                    return f"broker-{n}"
        return f"broker-{self._rng.randint(1, MEMBERS)}"


async def first_lists(urls: list[str]) -> None:
    """Publish the first list of each topic, which is empty."""
    links = Links(LoopNetwork(), LinkSettings("first", request_timeout_s=60.0), BrokerLink)
    for number, topic in enumerate(TOPICS):
        link = await links.owner(topic, urls[0])
        consumer = await RawConsumer.open(
            link, topic, SUBSCRIPTION, SHARED, on_messages=lambda run: None, initial=FROM_EARLIEST
        )
        producer = await RawProducer.open(link, topic)
        entry = [Message(content_of(f"{number}/0", []))]
        producer.send([0], [pack_entry(entry, producer_name="first", publish_ms=1)])
        await producer.drained()
        await consumer.close()
    await links.close()


async def run(instance: Instance, seconds: float, seed: int) -> bool:
    """Change lists under blows for ``seconds``; print what was anomalous, and return whether all was well."""
    children = [await asyncio.to_thread(instance.child, f"broker-{n + 1}") for n in range(MEMBERS)]
    urls = [f"pulsar://127.0.0.1:{child['ports']['pulsar']}" for child in children]
    await first_lists(urls)
    history: list[Appending] = []
    readers = [Reader(f"r{i}", urls, seed, topic) for i, topic in enumerate(TOPICS)]
    workers = [Worker(f"w{i}", urls, seed, TOPICS, COORDINATORS, history) for i in range(WORKERS)]
    tasks = [asyncio.create_task(client.run()) for client in (*readers, *workers)]
    blows, began = Blows(instance, seed), time.monotonic()
    try:
        while (now_s := time.monotonic() - began) < seconds:
            await asyncio.sleep(blows._rng.uniform(*BLOWS_S))
            struck = await blows.strike()
            committed = sum(txn.outcome is Outcome.COMMITTED for txn in history)
            print(f"{now_s:6.1f} s  {committed:>7} committed  {struck}", flush=True)
            for task in tasks:
                if task.done():
                    task.result()
        async with asyncio.timeout(SETTLE_S):
            while not all(worker.settled for worker in workers):
                await asyncio.sleep(1)
            for worker in workers:
                worker.stopping = True
            await asyncio.gather(*tasks[len(readers) :])
            await asyncio.sleep(max(TIMEOUTS_MS) / 1000 + 10)  # those that were left time out
            for reader in readers:
                reader.at_end = False
            while not all(reader.at_end for reader in readers):
                await asyncio.sleep(0.5)
        collector = Collector(urls, seed, TOPICS)
        tasks.append(asyncio.create_task(collector.run()))
        async with asyncio.timeout(SETTLE_S):
            while not all(collector.lists.get(topic) for topic in TOPICS):
                await asyncio.sleep(0.5)
            await asyncio.sleep(5)  # more than one list of a topic would come, too
        anomalous = anomalies(
            history, {key: lists for reader in readers for key, lists in reader.seen.items()}
        )
        for reader in readers:
            left = list(collector.lists[reader.topic].values())
            if left != [reader.newest]:
                anomalous.setdefault("not acknowledged once", []).append(
                    f"{reader.topic}: {len(left)} lists are left"
                )
    finally:
        for client in (*readers, *workers):
            client.stopping = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    outcomes = Counter(txn.outcome.value for txn in history)
    rows = {
        "transactions": len(history),
        **outcomes,
        "values appended": sum(len(v) for txn in history for v in txn.appends.values()),
        "lists read": sum(len(lists) for reader in readers for lists in reader.seen.values()),
        **blows.done,
        "seconds": round(time.monotonic() - began),
        "anomalies": sum(map(len, anomalous.values())),
    }
    for name, value in rows.items():
        print(f"{name:<28}  {value:>9}")
    for kind, texts in anomalous.items():
        print(f"{kind}: {len(texts)}", *texts[:10], sep="\n  ")
    return not anomalous and outcomes["committed"] > 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.appending.run", description=__doc__
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="of blows")
    parser.add_argument("--seed", type=int, default=1, help="of workers and blows")
    parser.add_argument("--dir", type=Path, help="keep data and logs here")
    arguments = parser.parse_args()
    directory = arguments.dir or Path(tempfile.mkdtemp(prefix="appending-"))
    good = False
    try:
        with running_instance(
            directory,
            brokers=MEMBERS,
            bookies=MEMBERS,
            MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true",
        ) as instance:
            status, answer = instance.rest(
                "POST", "/admin/v3/transactions/transactionCoordinator/replicas", COORDINATORS
            )
            if status != 204:
                raise RuntimeError(f"coordinators were not made: {status} {answer}")
            good = asyncio.run(run(instance, 60 * arguments.minutes, arguments.seed))
    finally:
        if good and arguments.dir is None:
            shutil.rmtree(directory)
        else:
            print(f"data and logs: {directory}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
