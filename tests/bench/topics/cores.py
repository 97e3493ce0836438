"""Publishing to one broker process, and to two that share the cores of this machine behind one address."""

import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from engine.base.errors import MagnetarError
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Receipt
from tests.bench.figures import Figures
from tests.support.instance import running_instance

TOPICS = 16
SENDERS = 2
RUN = 500
"""Entries that are sent at once."""
WINDOW = 2_000
"""Entries of a producer without a receipt."""
WARM_S, MEASURED_S = 5.0, 15.0
TICKS = os.sysconf("SC_CLK_TCK")


def shared_cores(brokers: int) -> Figures:
    """Return entries a second that ``brokers`` processes take together, and their CPU for each.

    The topics are not persistent and have no consumers, so that nearly all work is the brokers'. Producers look up
    their topics at the first broker's address.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_instance(Path(folder) / "data", brokers=brokers) as instance,
    ):
        context = multiprocessing.get_context("spawn")
        taken: Synchronized[int] = context.Value("q", 0)  # type: ignore[assignment]
        senders = [
            context.Process(target=_send_all, args=(instance.url, number, taken), daemon=True)
            for number in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        try:
            time.sleep(WARM_S)  # time: producers attach
            pids = [instance.child(f"broker-{i + 1}")["pid"] for i in range(brokers)]
            before, cpu_s, began = taken.value, _cpu_s(pids), time.monotonic()
            time.sleep(MEASURED_S)  # time: the measurement
            count, passed_s = taken.value - before, time.monotonic() - began
            return {
                "brokers": float(brokers),
                "entries/s": count / passed_s,
                "broker CPU, µs an entry": (_cpu_s(pids) - cpu_s) / max(count, 1) * 1e6,
            }
        finally:
            for sender in senders:
                sender.terminate()
                sender.join(10)


def _cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time of processes so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _send_all(url: str, number: int, taken: "Synchronized[int]") -> None:
    asyncio.run(_send(url, number, taken))


async def _send(url: str, number: int, taken: "Synchronized[int]") -> None:
    links = Links(LoopNetwork(), LinkSettings(), BrokerLink)
    topics = [f"non-persistent://public/default/cores-{number}-{i}" for i in range(TOPICS)]
    await asyncio.gather(*(_send_to(links, url, topic, taken) for topic in topics))


async def _send_to(
    links: Links[BrokerLink], url: str, topic: str, taken: "Synchronized[int]"
) -> None:
    """Send as fast as receipts arrive."""
    entry = pack_entry([Message(b"." * 100)], producer_name="bench", publish_ms=1)
    entries = [entry] * RUN
    arrived = asyncio.Event()

    def on_receipts(receipts: Sequence[Receipt]) -> None:
        with taken.get_lock():
            taken.value += len(receipts)
        arrived.set()

    sequence = 0
    while True:
        try:
            link = await links.owner(topic, url)
            producer = await RawProducer.open(link, topic, on_receipts=on_receipts)
            while producer.error is None:
                if producer.unanswered > WINDOW - RUN:
                    arrived.clear()
                    await arrived.wait()
                    continue
                producer.send(range(sequence, sequence + RUN), entries)
                sequence += RUN
                await link.room()
        except (MagnetarError, OSError):
            await asyncio.sleep(0.2)  # time: between attempts
