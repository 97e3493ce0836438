"""The console while parts of an instance are killed or frozen: no backlog is shown too low without a mark, the part
that does not answer is named, and the marks disappear without intervention."""

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
from tests.support.waiting import until_blocking

C = "/api/v1/clusters/standalone"
TOPICS = [f"persistent://public/default/waits-{number}" for number in range(6)]
PARTITIONED = "persistent://public/default/parts"
ENTRIES = 20
NAMED_S = 60.0
"""Bound of the time until a hop is named: 2 s on an idle machine, and this one may be busy."""
CLEARED_S = 60.0
PERIOD_S = 0.1


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    session = {"MAGNETAR_METADATA_STORE_SESSION_TIMEOUT_MILLIS": "6000"}
    with running_instance(tmp_path_factory.mktemp("truth"), brokers=2, **session) as running:
        assert (
            running.rest("PUT", "/admin/v2/persistent/public/default/parts/partitions", 4)[0] == 204
        )
        fill(running)
        yield running


def fill(instance: Instance) -> None:
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    for topic in (*TOPICS, PARTITIONED):
        client.subscribe(topic, "unread").close()
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(ENTRIES):
            producer.send(b"%d" % number)
        producer.close()
    client.close()


class Watcher(threading.Thread):
    """A thread that requests the console's numbers repeatedly and records every wrong answer."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(daemon=True)
        self._instance = instance
        self._ended = threading.Event()
        self.wrong: list[str] = []
        self.requests = 0
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
                self.requests += 1
                if status == 200:
                    look(body)
                elif status != 503 or not body.get("hop"):
                    self.wrong.append(f"{path}: {status} {body}")

    def end(self) -> None:
        self._ended.set()
        self.join(60)

    def _overview(self, body: Any) -> None:
        totals = body["totals"]
        marked = totals["unknown"] + totals["last"]
        if totals["backlog"] < ENTRIES * (len(TOPICS) + 1) and not marked:
            self.wrong.append(f"overview: {totals}")

    def _topics(self, body: Any) -> None:
        rows = {row["name"]: row for row in body["rows"]}
        for name in (*TOPICS, PARTITIONED):
            if name not in rows:
                self.wrong.append(f"{name} is missing")
            else:
                self._row(rows[name])

    def _topic(self, body: Any) -> None:
        self._row(body["row"])

    def _row(self, row: Any) -> None:
        backlog = row["backlog"]
        if backlog is None and row["known"] != "no":
            self.wrong.append(f"null without a mark: {row}")
        if backlog is not None and backlog < ENTRIES and row["known"] not in ("last", "no"):
            self.wrong.append(f"below the truth: {row}")
        if backlog is None:
            self.wrong.append(f"a figure that was known is gone: {row}")


@contextmanager
def watched(instance: Instance) -> Iterator[Watcher]:
    until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
    watcher = Watcher(instance)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.end()
    assert watcher.requests > 0
    assert watcher.wrong == []


def health(instance: Instance) -> Any:
    began = time.monotonic()
    status, body = instance.rest("GET", "/api/v1/health")
    assert status == 200
    assert time.monotonic() - began < 5, "the answer waited for a part"
    return body


def bad(instance: Instance) -> list[tuple[str, str]]:
    return [
        (hop["hop"], hop["id"])
        for hop in health(instance)["hops"]
        if hop["state"] in ("slow", "down")
    ]


def settled(instance: Instance) -> bool:
    """Return whether every topic is listed with live numbers of all that was published.

    A partitioned one is listed a second after its creation, and each partition's numbers arrive on their own.
    """
    status, body = instance.rest("GET", f"{C}/topics?limit=100")
    known = {row["name"]: row["known"] for row in body["rows"]} if status == 200 else {}
    if not {*TOPICS, PARTITIONED} <= known.keys() or {"last", "no"} & {*known.values()}:
        return False
    listed = (*TOPICS, PARTITIONED)
    return all(row["backlog"] >= ENTRIES for row in body["rows"] if row["name"] in listed)


def until(instance: Instance, condition: Callable[[], object], timeout_s: float) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < timeout_s, f"{health(instance)}\n{instance.logs(1000)}"
        time.sleep(0.05)
    return time.monotonic() - began


def owner(instance: Instance, topic: str) -> str:
    local = urllib.parse.quote(topic.rpartition("/")[2])
    answer = instance.rest("GET", f"{C}/topics/persistent/public/default/{local}")
    return str(answer[1]["owner"])


def registered(instance: Instance) -> list[str]:
    """Return the brokers whose sessions have not ended."""
    status, brokers = instance.rest("GET", "/admin/v2/brokers/standalone")
    assert status == 200, brokers
    return list(brokers)


def child_of(instance: Instance, broker_id: str) -> str:
    children = instance.control("status")["children"]
    port = int(broker_id.rpartition(":")[2])
    return next(str(child["name"]) for child in children if child["ports"].get("http") == port)


@contextmanager
def frozen(instance: Instance, *names: str) -> Iterator[None]:
    pids = [int(instance.child(name)["pid"]) for name in names]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_frozen_broker_is_named_and_its_backlogs_stay_true(instance: Instance) -> None:
    """Freeze a broker until its session ends and the other broker reads its topics from storage.

    The broker owns most of the topics that no page requests. The gateway must notice it although the topic that is
    requested has another owner.
    """
    owners = [owner(instance, topic) for topic in TOPICS[1:]]
    broker = max(owners, key=owners.count)
    with watched(instance):
        with frozen(instance, child_of(instance, broker)):
            until(instance, lambda: ("broker", broker) in bad(instance), NAMED_S)
            first = health(instance)
            until(instance, lambda: broker not in registered(instance), CLEARED_S)
            assert ("broker", broker) in bad(instance)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
    assert first["at"] is not None
    [hop] = [hop for hop in first["hops"] if hop["id"] == broker]
    assert hop["reason"].startswith(f"Broker {broker} ")
    assert hop["advice"]


def test_a_killed_broker_leaves_its_backlogs_true(instance: Instance) -> None:
    broker = owner(instance, TOPICS[1]) or health(instance)["hops"][1]["id"]
    child = child_of(instance, broker)
    with watched(instance):
        instance.control("stop", child)
        instance.control("start", child)
        instance.wait_running(child)
        instance.control("kill", child)
        instance.wait_running(child)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)


def standing_still(instance: Instance, for_s: float) -> Callable[[], bool]:
    """Return a condition: the time of the console's numbers did not change during the last ``for_s`` seconds."""
    at, since = health(instance)["at"], time.monotonic()

    def is_met() -> bool:
        nonlocal at, since
        if (now := health(instance)["at"]) != at:
            at, since = now, time.monotonic()
        return time.monotonic() - since >= for_s

    return is_met


def test_a_frozen_then_killed_metadata_store_is_named(instance: Instance) -> None:
    with watched(instance) as watcher:
        with frozen(instance, "zookeeper"):
            until(instance, lambda: ("store", "") in bad(instance), NAMED_S)
            # The numbers are as old as their oldest source, which answers no more.
            until(instance, standing_still(instance, 2.0), NAMED_S)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
        instance.control("stop", "zookeeper")
        until(instance, lambda: ("store", "") in bad(instance), NAMED_S)
        seen = watcher.requests
        until(instance, lambda: watcher.requests > seen + 15, CLEARED_S)
        instance.control("start", "zookeeper")
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)


def state_of(instance: Instance, hop: str) -> str:
    states: dict[str, str] = {row["hop"]: row["state"] for row in health(instance)["hops"]}
    return states[hop]


def test_unavailable_parts_without_numbers_are_named(instance: Instance) -> None:
    assert (state_of(instance, "redis"), state_of(instance, "spark")) == ("unknown", "unknown")
    instance.control("start", "worker")
    until(instance, lambda: state_of(instance, "spark") == "ok", NAMED_S)
    wanted = {"redis", "bookie"}
    with watched(instance):
        with frozen(instance, "redis", "bookie-1"):
            until(instance, lambda: wanted <= {hop for hop, _ in bad(instance)}, NAMED_S)
            until(instance, lambda: state_of(instance, "spark") == "unknown", NAMED_S)
        until(instance, lambda: not bad(instance), CLEARED_S)
        with frozen(instance, "worker"):
            until(instance, lambda: bad(instance) == [("spark", "")], NAMED_S)
        for name, hop in (("bookie-1", "bookie"), ("worker", "spark"), ("redis", "redis")):
            instance.control("stop", name)
            until(instance, lambda hop=hop: hop in {kind for kind, _ in bad(instance)}, NAMED_S)
            instance.control("start", name)
        until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)


def test_a_gateway_that_starts_without_the_metadata_store_names_it(instance: Instance) -> None:
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
        assert "Check that its server is running" in body["reason"]
        assert time.monotonic() - began < 8, "it takes 2 s on an idle machine"
    instance.control("start", "zookeeper")
    until(instance, lambda: not bad(instance) and settled(instance), CLEARED_S)
