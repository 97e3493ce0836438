"""``python -m tests.crash.torture [--messages 1000000] [--minutes 5]``: real processes, killed, stopped and wiped all
the time, under producers of the official client, while auto-recovery makes lost copies again; then everything that was
confirmed must be there, in order, and on its whole write set.

ZooKeeper, three bookies (entries on all three, two answers needed) on disks that lose what was not synced, two brokers.
Prints a table; status 1 when a message was lost, reordered, not at the position of its receipt, or sent by no producer,
or when a copy is missing.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.crash.kit.processes import QUICK_REPAIR, Cluster, running_cluster, zookeeper_process
from tests.crash.load import quiet_client
from tests.crash.nemesis import KINDS, Nemesis
from tests.crash.traffic import Reading, Traffic
from tests.support.zookeeper.process import ZooKeeperProcess

KEPT = [f"persistent://public/default/kept-{i}" for i in range(2)]
CONSUMED = ["persistent://public/default/consumed"]
"""A topic whose deleted ledgers lie in entry logs among others, so that garbage collection and compaction have work."""
PRODUCERS = 6
QUIET_S = 30.0
"""Time without a received message after which the missing ones count as lost."""
LAST_BYTES = 20_000
"""Bytes of the end of each log that are shown when a run fails."""
BOOKIE = QUICK_REPAIR | {
    "journal_file_bytes": str(1 << 20),
    "write_cache_bytes": str(1 << 20),
    "entry_log_bytes_max": str(2 << 20),
    "flush_interval_s": "0.5",
    "gc_wait_time_s": "1",
    "minor_compaction_interval_s": "2",
    "major_compaction_interval_s": "5",
}
BROKER = {
    "managed_ledger_max_entries_per_ledger": "1000",
    "managed_ledger_min_ledger_rollover_time_minutes": "0",
}


@dataclass
class Report:
    """Counts of a run; ``rows`` in the order they are printed."""

    rows: dict[str, str]
    wrong: dict[str, int]

    @property
    def good(self) -> bool:
        return not any(self.wrong.values())

    def text(self) -> str:
        rows = {**self.rows, **{name: str(count) for name, count in self.wrong.items()}}
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {value:>10}" for name, value in rows.items())


def run(
    directory: Path,
    zookeeper: ZooKeeperProcess,
    *,
    messages: int,
    seconds: float,
    seed: int,
    only: str = "",
    say: Callable[[str], None],
) -> Report:
    """Cause faults until ``messages`` are confirmed and ``seconds`` over, each kind once at least; then count.

    ``only``: repeat that kind of fault. Raises TimeoutError, AssertionError when the cluster does not recover,
    NotWholeError when copies stay missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with running_cluster(
        directory, zookeeper, brokers=2, bookie_settings=BOOKIE, broker_settings=BROKER
    ) as cluster:
        log = directory / "clients.log"
        rate = messages / seconds
        traffic = Traffic(
            [cluster.url], partial(quiet_client, log=str(log)), KEPT, CONSUMED, PRODUCERS, rate
        )
        try:
            nemesis = Nemesis(cluster, traffic, seed)
            struck = time.monotonic()
            while traffic.confirmed < messages or time.monotonic() - struck < seconds:
                for kind in [only] if only else nemesis.round():
                    nemesis.strike(kind)
                    now_s = time.monotonic() - began
                    say(f"{now_s:6.1f} s  {traffic.confirmed:>9} confirmed  {kind}")
            publishing_s = time.monotonic() - struck
            traffic.stop_sending(60)
            nemesis.black_out()
            ledgers = nemesis.wait_whole()
            say(f"{time.monotonic() - began:6.1f} s  {ledgers} ledgers have all their copies")
            for reading in traffic.readings:
                reading.wait_all(QUIET_S)
            say(
                f"{time.monotonic() - began:6.1f} s  audit: everything is read again from the start"
            )
            audits = traffic.audit()
            for audit in audits:
                audit.wait_all(QUIET_S)
                audit.close()
            report = _report(traffic, nemesis, audits)
            report.rows |= {
                "bundles taken by a broker": _logged(cluster, "bundle taken"),
                "entry logs compacted": _logged(cluster, "entry log compacted"),
                "segments copied": _logged(cluster, "segment copied"),
                "open ledgers recovered by repair": _logged(
                    cluster, "of lost bookies is recovered"
                ),
                "ledgers with all copies at the end": str(ledgers),
                "longest wait for copies": f"{nemesis.longest_repair_s:.1f} s",
                "longest publish gap": f"{traffic.longest_gap_s:.1f} s",
                "publishing": f"{publishing_s:.0f} s",
                "in all": f"{time.monotonic() - began:.0f} s",
            }
            return report
        except BaseException as error:
            error.add_note(_both_ends(cluster, log))
            raise
        finally:
            traffic.close()


def _both_ends(cluster: Cluster, clients: Path) -> str:
    """Return the ends of the logs of clients and brokers, what each broker serves and what its tasks wait for."""
    parts = [f"clients: {clients.read_text(errors='replace')[-LAST_BYTES:]}"]
    for broker in cluster.brokers:
        parts += [f"{broker.name} serves: {broker.ask('topic_rows')}", broker.tasks()]
        parts.append(f"{broker.name} logged last: {broker.log_end(LAST_BYTES)}")
    return "\n\n".join(parts)


def _logged(cluster: Cluster, words: str) -> str:
    """Return how often processes have logged ``words``."""
    return str(sum(log.read_text().count(words) for log in cluster.directory.glob("*.log")))


def _report(traffic: Traffic, nemesis: Nemesis, audits: list[Reading]) -> Report:
    seen = [stream for reading in traffic.readings for stream in reading.seen.values()]
    audited = [stream for audit in audits for stream in audit.seen.values()]
    rows = {
        "sent": sum(stream.sent for stream in traffic.streams.values()),
        "acknowledged": traffic.confirmed,
        "received": sum(sum(stream.got) for stream in seen),
        "redelivered": sum(stream.again for stream in seen),
        "read again in the audit": sum(sum(stream.got) for stream in audited),
        "stored more than once": sum(stream.again for stream in audited),
        **dict(sorted(nemesis.done.items())),
        "different points among them": len(nemesis.points),
        "blows in all": nemesis.done.total(),
        "stood still with one bookie away": nemesis.stood_still,
    }
    return Report({name: str(count) for name, count in rows.items()}, traffic.wrong(audits))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.torture", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="acknowledged, at least")
    parser.add_argument("--minutes", type=float, default=5.0, help="of publishing, at least")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and their order")
    parser.add_argument("--only", default="", choices=KINDS, help="this kind of fault and no other")
    parser.add_argument("--dir", type=Path, help="keep data and logs here")
    arguments = parser.parse_args()
    directory = arguments.dir or Path(tempfile.mkdtemp(prefix="torture-"))
    say = partial(print, flush=True)
    good = False
    try:
        with zookeeper_process(directory / "zookeeper") as zookeeper:
            report = run(
                directory / "cluster",
                zookeeper,
                messages=arguments.messages,
                seconds=60 * arguments.minutes,
                seed=arguments.seed,
                only=arguments.only,
                say=say,
            )
        good = report.good
        say(report.text())
    finally:
        if good and arguments.dir is None:
            shutil.rmtree(directory)
        else:
            say(f"data and logs: {directory}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
