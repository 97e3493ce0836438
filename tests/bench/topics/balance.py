"""Balance of load among three brokers: 64 bundles of one topic each, whose traffic follows Zipf's law."""

import asyncio
import multiprocessing
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.tenancy.bundles import Bundles, even_bundles
from engine.wire.batches import Message, pack_entry
from tests.bench.figures import Figures
from tests.support.instance import Instance, running_instance
from tests.support.instances.rolling import broker_names, service_url

BUNDLES = 64
NAMESPACE = "public/zipf"
TICK_S = 0.05
SPREAD_MAX = 0.25
IDLE_RATIO = 0.5
LIMIT_S = 600.0
STEADY_S = 120.0
"""Time without a move after which the brokers count as balanced."""
POLL_S = 2.0


def balanced(entries_per_s: float) -> Figures:
    """Return how long three brokers take to share a load that one had alone, and a restarted broker to have its
    share."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_instance(Path(folder) / "data", brokers=3) as instance,
    ):
        path = f"/admin/v2/namespaces/{NAMESPACE}"
        instance.rest("PUT", path, {"bundles": {"numBundles": BUNDLES}})
        names = broker_names(instance)
        for name in names[1:]:
            instance.control("stop", name)
        # Without consumers the broker drops the entries after it has worked for them.
        context = multiprocessing.get_context("spawn")
        first = service_url(instance).removeprefix("pulsar://").split(",")[0]
        traffic = context.Process(
            target=_send_all, args=(f"pulsar://{first}", entries_per_s), daemon=True
        )
        traffic.start()
        try:
            watched = Watched(instance)
            while watched.look() is None or not watched.highest:
                time.sleep(POLL_S)
            time.sleep(20)  # time: the report of the loaded broker
            for name in names[1:]:
                instance.control("start", name)
            shared_s = watched.until_steady()
            moves = dict(watched.moves)
            instance.control("stop", names[2])
            time.sleep(10)  # time: an absence that reports notice
            instance.control("start", names[2])
            share_s = watched.until_no_broker_is_idle()
            return {
                "load of one broker alone": watched.highest,
                "s until the deviation is below 0.25": shared_s,
                "deviation then": watched.spread or 0.0,
                "bundles moved": float(len(moves)),
                "bundles moved twice": float(sum(number > 1 for number in moves.values())),
                "s until a restarted broker has its share": share_s,
            }
        finally:
            traffic.terminate()
            traffic.join(10)


class Watched:
    """The balance, as the console reports it."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self.highest = 0.0
        self.spread: float | None = None
        self.moves: dict[str, int] = {}
        self._seen: set[tuple[str, int]] = set()
        self._moved_s = time.monotonic()
        self._planned_ms = 0

    def look(self) -> dict[str, float] | None:
        """Return the known loads by broker; None without a plan."""
        report: Any
        status, report = self._instance.rest("GET", "/api/v1/clusters/standalone/load-balance")
        if status != 200:
            return None
        self._planned_ms = report["at"] or 0
        for move in report["moves"]:
            key = (move["bundle"], move["at"])
            if key not in self._seen:
                self._seen.add(key)
                self.moves[move["bundle"]] = self.moves.get(move["bundle"], 0) + 1
                self._moved_s = time.monotonic()
                print(f"moved {move['bundle']}: {move['reason']} ({move['result']})", flush=True)
        loads = {row["broker"]: row["load"] for row in report["loads"] if row["load"] is not None}
        self.highest = max(self.highest, *loads.values(), 0.0)
        if report["spread"] != self.spread:
            self.spread = report["spread"]
            print(f"spread {self.spread} loads {loads} {report['not_moved'][:2]}", flush=True)
        return loads or None

    def until_steady(self) -> float:
        """Return the seconds until the deviation is below its limit, no broker is idle, and it stays so without a
        move."""
        began = time.monotonic()
        below_s: float | None = None
        while time.monotonic() - began < LIMIT_S:
            loads = self.look() or {}
            if self.spread is None or self.spread > SPREAD_MAX or _has_idle(loads):
                below_s = None
            elif below_s is None:
                below_s = time.monotonic() - began
            if (
                below_s is not None
                and time.monotonic() - max(self._moved_s, began + below_s) > STEADY_S
            ):
                return below_s
            time.sleep(POLL_S)
        raise TimeoutError(f"not balanced within {LIMIT_S:.0f} s: {self.spread}")

    def until_no_broker_is_idle(self) -> float:
        """Return the seconds until a plan finds all three brokers with at least half of the mean load."""
        began, began_ms = time.monotonic(), time.time() * 1000
        while time.monotonic() - began < LIMIT_S:
            if not _has_idle(self.look() or {}) and self._planned_ms > began_ms:
                return time.monotonic() - began
            time.sleep(POLL_S)
        raise TimeoutError(f"a broker is idle after {LIMIT_S:.0f} s")


def _has_idle(loads: dict[str, float]) -> bool:
    """Return whether a broker has less than half of the mean load, or an unknown one."""
    mean = sum(loads.values()) / max(len(loads), 1)
    return len(loads) < 3 or min(loads.values()) <= IDLE_RATIO * mean


def one_topic_for_each_bundle() -> list[str]:
    """Return the names of topics, one in each bundle of the namespace."""
    any_name = TopicName.parse(f"non-persistent://{NAMESPACE}/t")
    bundles = Bundles.of_boundaries(any_name.namespace, even_bundles(BUNDLES)["boundaries"])
    topics: dict[str, str] = {}
    for number in count():
        name = TopicName.parse(f"non-persistent://{NAMESPACE}/t{number}")
        topics.setdefault(bundles.of_topic(name).range, name.full)
        if len(topics) == BUNDLES:
            return list(topics.values())
    raise AssertionError


def _send_all(url: str, entries_per_s: float) -> None:
    asyncio.run(_send(url, entries_per_s))


async def _send(url: str, entries_per_s: float) -> None:
    topics = one_topic_for_each_bundle()
    whole = sum(1 / rank for rank in range(1, len(topics) + 1))
    links = Links(LoopNetwork(), LinkSettings(), BrokerLink)
    await asyncio.gather(
        *(
            _send_to(links, url, topic, entries_per_s / rank / whole)
            for rank, topic in enumerate(topics, 1)
        )
    )


async def _send_to(links: Links[BrokerLink], url: str, topic: str, rate: float) -> None:
    """Send ``rate`` entries a second to a topic, to whichever broker has it."""
    entry = pack_entry([Message(b"." * 100)], producer_name="bench", publish_ms=1)
    per_tick, owed, sequence = rate * TICK_S, 0.0, 0
    while True:
        try:
            producer = await RawProducer.open(await links.owner(topic, url), topic)
            while producer.error is None:
                owed += per_tick
                number = int(owed)
                owed -= number
                if number:
                    producer.send(range(sequence, sequence + number), [entry] * number)
                    sequence += number
                    await producer.link.room()
                await asyncio.sleep(TICK_S)  # time: the rate
        except (MagnetarError, OSError):
            await asyncio.sleep(0.2)  # time: between attempts
