"""What the console says while parts of an instance are killed or stand still: no backlog below the truth without a
mark, the part that does not answer is named, and all of it clears by itself."""

import os
import signal
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance, running_instance
from tests.support.waiting import stays_blocking, until_blocking

C = "/api/v1/clusters/standalone"
TOPICS = [f"persistent://public/default/waits-{number}" for number in range(6)]
PARTITIONED = "persistent://public/default/parts"
ENTRIES = 20
NAMED_S = 60.0
"""A hop is named within 2 s on a machine that has time; this one may have none."""
CLEARED_S = 60.0
PERIOD_S = 0.1


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    session = {"MAGNETAR_METADATA_STORE_SESSION_TIMEOUT_MILLIS": "6000"}
    with running_instance(tmp_path_factory.mktemp("truth"), brokers=2, **session) as made:
        assert made.rest("PUT", "/admin/v2/persistent/public/default/parts/partitions", 4)[0] == 204
        fill(made)
        yield made


def fill(instance: Instance) -> None:
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    for topic in (*TOPICS, PARTITIONED):
        client.subscribe(topic, "nobody").close()
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(ENTRIES):
            producer.send(b"%d" % number)
        producer.close()
    client.close()


class Watcher(threading.Thread):
    """Asks for what the console shows, again and again, and notes every lie."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(daemon=True)
        self._instance = instance
        self._ended = threading.Event()
        self.lies: list[str] = []
        self.asked = 0
        self.slowest_s = 0.0

    def run(self) -> None:
        local = TOPICS[0].rpartition("/")[2]
        pages: dict[str, Callable[[Any], None]] = {
            f"{C}/overview": self._overview,
            f"{C}/topics?limit=100": self._topics,
            f"{C}/topics/persistent/public/default/{local}": self._topic,
        }
        while not self._ended.wait(PERIOD_S):
            for path, look in pages.items():
                began = time.monotonic()
                status, body = self._instance.rest("GET", path, timeout_s=30)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.asked += 1
                if status == 200:
                    look(body)
                elif status != 503 or not body.get("hop"):
                    self.lies.append(f"{path}: {status} {body}")

    def end(self) -> None:
        self._ended.set()
        self.join(60)

    def _overview(self, body: Any) -> None:
        totals = body["totals"]
        marked = totals["unknown"] + totals["last"]
        if totals["backlog"] < ENTRIES * (len(TOPICS) + 1) and not marked:
            self.lies.append(f"overview: {totals}")

    def _topics(self, body: Any) -> None:
        rows = {row["name"]: row for row in body["rows"]}
        for name in (*TOPICS, PARTITIONED):
            if name not in rows:
                self.lies.append(f"{name} is missing")
            else:
                self._row(rows[name])

    def _topic(self, body: Any) -> None:
        self._row(body["row"])

    def _row(self, row: Any) -> None:
        told = row["backlog"]
        if told is None and row["known"] != "no":
            self.lies.append(f"null without a mark: {row}")
        if told is not None and told < ENTRIES and row["known"] not in ("last", "no"):
            self.lies.append(f"below the truth: {row}")
        if told is None:
            self.lies.append(f"a figure that was known is gone: {row}")


@contextmanager
def watched(instance: Instance) -> Iterator[Watcher]:
    until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
    watcher = Watcher(instance)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.end()
    assert watcher.asked > 0
    assert watcher.lies == []


def health(instance: Instance) -> Any:
    began = time.monotonic()
    status, body = instance.rest("GET", "/api/v1/health")
    assert status == 200
    assert time.monotonic() - began < 5, "nothing is waited for"
    return body


def bad(instance: Instance) -> list[tuple[str, str]]:
    return [
        (hop["hop"], hop["id"])
        for hop in health(instance)["hops"]
        if hop["state"] in ("slow", "down")
    ]


def settled(instance: Instance) -> bool:
    """Whether every topic is listed with live numbers; a partitioned one is, up to a second after it was made."""
    status, body = instance.rest("GET", f"{C}/topics?limit=100")
    known = {row["name"]: row["known"] for row in body["rows"]} if status == 200 else {}
    if not {*TOPICS, PARTITIONED} <= known.keys() or {"last", "no"} & {*known.values()}:
        return False
    return all(row["backlog"] >= ENTRIES for row in body["rows"] if row["name"] in TOPICS)


def until(instance: Instance, condition: Callable[[], object], timeout_s: float) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < timeout_s, f"{health(instance)}\n{instance.logs(1000)}"
        time.sleep(0.05)
    return time.monotonic() - began


def owner(instance: Instance, topic: str) -> str:
    local = urllib.parse.quote(topic.rpartition("/")[2])
    found = instance.rest("GET", f"{C}/topics/persistent/public/default/{local}")
    return str(found[1]["owner"])


def registered(instance: Instance) -> list[str]:
    """Brokers whose sessions have not ended."""
    status, brokers = instance.rest("GET", "/admin/v2/brokers/standalone")
    assert status == 200, brokers
    return list(brokers)


def child_of(instance: Instance, broker_id: str) -> str:
    children = instance.control("status")["children"]
    port = int(broker_id.rpartition(":")[2])
    return next(str(child["name"]) for child in children if child["ports"].get("http") == port)


@contextmanager
def standing_still(instance: Instance, *names: str) -> Iterator[None]:
    pids = [int(instance.child(name)["pid"]) for name in names]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_broker_that_stands_still(instance: Instance) -> None:
    """Its session ends meanwhile, and the other broker reads what is stored. It has most of the topics that no page
    asks for, so that it is missed although the watched topic finds another broker."""
    owners = [owner(instance, topic) for topic in TOPICS[1:]]
    broker = max(owners, key=owners.count)
    with watched(instance):
        with standing_still(instance, child_of(instance, broker)):
            until(instance, lambda: ("broker", broker) in bad(instance), NAMED_S)
            first = health(instance)
            until(instance, lambda: broker not in registered(instance), CLEARED_S)
            assert ("broker", broker) in bad(instance)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
    assert first["at"] is not None
    [hop] = [hop for hop in first["hops"] if hop["id"] == broker]
    assert hop["reason"].startswith(f"Broker {broker} ")
    assert hop["advice"]


def test_a_broker_that_is_killed(instance: Instance) -> None:
    broker = owner(instance, TOPICS[1]) or health(instance)["hops"][1]["id"]
    child = child_of(instance, broker)
    with watched(instance):
        instance.control("stop", child)
        instance.control("start", child)
        instance.wait_running(child)
        instance.control("kill", child)
        instance.wait_running(child)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)


def test_the_metadata_store_stands_still_then_is_killed(instance: Instance) -> None:
    with watched(instance) as watcher:
        with standing_still(instance, "zookeeper"):
            until(instance, lambda: ("store", "") in bad(instance), NAMED_S)
            stale = health(instance)
            # Freshness is that of the oldest source.
            stays_blocking(lambda: health(instance)["at"] == stale["at"], 2.0)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
        instance.control("stop", "zookeeper")
        until(instance, lambda: ("store", "") in bad(instance), NAMED_S)
        seen = watcher.asked
        until(instance, lambda: watcher.asked > seen + 15, CLEARED_S)
        instance.control("start", "zookeeper")
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)


def state_of(instance: Instance, hop: str) -> str:
    states: dict[str, str] = {each["hop"]: each["state"] for each in health(instance)["hops"]}
    return states[hop]


def test_parts_that_carry_no_numbers(instance: Instance) -> None:
    wanted = {"redis", "bookie"}
    with watched(instance):
        with standing_still(instance, "redis", "bookie-1"):
            until(instance, lambda: wanted <= {hop for hop, _ in bad(instance)}, NAMED_S)
            until(instance, lambda: state_of(instance, "spark") == "unknown", NAMED_S)
        until(instance, lambda: not bad(instance), CLEARED_S)
        with standing_still(instance, "worker"):
            until(instance, lambda: bad(instance) == [("spark", "")], NAMED_S)
        for name, hop in (("bookie-1", "bookie"), ("worker", "spark"), ("redis", "redis")):
            instance.control("stop", name)
            until(instance, lambda hop=hop: hop in {found for found, _ in bad(instance)}, NAMED_S)
            instance.control("start", name)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)


def test_a_gateway_that_starts_while_the_metadata_store_is_away(instance: Instance) -> None:
    instance.control("stop", "zookeeper")
    child = instance.child("gateway")
    os.kill(int(child["pid"]), signal.SIGKILL)

    def serves() -> bool:
        try:
            return instance.rest("GET", "/api/v1/environment")[0] == 200
        except OSError:
            return False

    until_blocking(serves)
    until(instance, lambda: ("store", "") in bad(instance), NAMED_S)
    for page in ("overview", "topics", "topics/persistent/public/default/waits-0"):
        began = time.monotonic()
        status, body = instance.rest("GET", f"{C}/{page}")
        assert (status, body["hop"]) == (503, "store")
        assert "ZooKeeper" in body["reason"]
        assert time.monotonic() - began < 8, "2 s on a machine that has time"
    instance.control("start", "zookeeper")
    until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
