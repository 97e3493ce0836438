"""``python -m tests.geo.run --seconds N``: three clusters that send their topics to each other under load, while their
brokers, bookies and metadata servers are killed or suspended and the links between them are cut, delayed and reset.

Official clients publish at every cluster to every topic. At the end each cluster holds every message once, in order per
producer, and no replicator has a backlog. Status 1 otherwise.
"""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.geo.clusters import NAMESPACE, GeoBroker, GeoCluster, link_name
from tests.geo.links import HEALED, Fault, Links
from tests.geo.traffic import Traffic
from tests.oracle.servers import Ours

NAMES = ("us", "eu", "ap")
LASTS_S = (1.0, 3.0, 8.0)
"""Durations of a fault."""
SILENT_S = 70.0
"""Duration of a cut that keep-alives notice, in long runs."""
CAUGHT_UP_S = 240.0
QUIET_S = 60.0
RECEIPTS_S = 90.0
READY_S = 90.0

Say = Callable[[str], None]


@contextmanager
def replicated_clusters(
    work: Path, names: Sequence[str] = NAMES, brokers: int = 2, bookies: int = 3
) -> Iterator[tuple[list[GeoCluster], Links]]:
    """Run clusters that replicate the default namespace to each other, for the length of a ``with`` block."""
    clusters = [
        GeoCluster(work, name, [n for n in names if n != name], brokers, bookies) for name in names
    ]
    ports = {
        link_name(source, target.name): [(b.proxies[source], b.port) for b in target.brokers]
        for source in names
        for target in clusters
        if source != target.name
    }
    links = Links(ports)
    try:
        for cluster in clusters:
            cluster.start()
        for cluster in clusters:
            asyncio.run(cluster.replicate_to([c for c in clusters if c is not cluster]))
        yield clusters, links
    finally:
        for cluster in clusters:
            cluster.stop()
        links.close()


class Campaign:
    """Faults one after the other, of which some last while the next begin. ``done`` counts them by kind."""

    def __init__(
        self, clusters: Sequence[GeoCluster], links: Links, seed: int, *, silent: bool, say: Say
    ) -> None:
        self._clusters = clusters
        self._links = links
        self._rng = random.Random(seed)
        self._say = say
        self._silent = silent
        self._ends: dict[str, tuple[float, Callable[[], None] | None]] = {}
        """End of each fault that lasts, by what it hit."""
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        """Cause a fault of something that is well."""
        kinds = {
            "broker killed": self._kill_broker,
            "bookie killed": self._kill_bookie,
            "broker suspended": self._suspend,
            "metadata server killed": self._kill_metadata,
            "link cut in one direction": self._cut_one_way,
            "link cut": partial(self._fail, Fault(there_cut=True, back_cut=True)),
            "link delayed by 200 ms": partial(self._fail, Fault(delay_s=0.1)),
            "one of a hundred pieces resets": partial(self._fail, Fault(reset_share=0.01)),
            "link reset": partial(self._fail, Fault(reset_all=True)),
        }
        kind = self._rng.choice(sorted(kinds))
        if (what := kinds[kind]()) is not None:
            self.done[kind] += 1
            self._say(f"{kind}: {what}")

    def end_due(self, *, all_of_them: bool = False) -> None:
        """End the faults whose time is over."""
        now = time.monotonic()
        for what in [what for what, (due, _) in self._ends.items() if all_of_them or now >= due]:
            _, end = self._ends.pop(what, (0.0, None))
            if end is not None:
                end()

    def _lasts_s(self) -> float:
        return self._rng.choice(LASTS_S)

    def _kill_broker(self) -> str | None:
        cluster = self._rng.choice(self._clusters)
        return self._killed(cluster, self._rng.choice(cluster.brokers))

    def _kill_bookie(self) -> str | None:
        cluster = self._rng.choice(self._clusters)
        if any(f"{cluster.name}/{bookie.name}" in self._ends for bookie in cluster.bookies):
            return None
        return self._killed(cluster, self._rng.choice(cluster.bookies))

    def _kill_metadata(self) -> str | None:
        cluster = self._rng.choice(self._clusters)
        return self._killed(cluster, cluster.metadata)

    def _killed(self, cluster: GeoCluster, part: Ours) -> str | None:
        what = f"{cluster.name}/{part.name}"
        if what in self._ends:
            return None
        part.kill()
        self._ends[what] = (time.monotonic() + self._lasts_s(), partial(self._start, cluster, part))
        return what

    def _start(self, cluster: GeoCluster, part: Ours) -> None:
        """Start a part that was killed; nothing starts without its metadata server."""
        _, start_metadata = self._ends.pop(f"{cluster.name}/{cluster.metadata.name}", (0.0, None))
        if start_metadata is not None:
            start_metadata()
        part.start(READY_S)

    def _suspend(self) -> str | None:
        cluster = self._rng.choice(self._clusters)
        broker = self._rng.choice(cluster.brokers)
        what = f"{cluster.name}/{broker.name}"
        if what in self._ends or broker.process is None:
            return None
        broker.process.send_signal(signal.SIGSTOP)
        self._ends[what] = (time.monotonic() + self._lasts_s(), partial(_continue, broker))
        return what

    def _cut_one_way(self) -> str | None:
        there = self._rng.random() < 0.5
        return self._fail(Fault(there_cut=there, back_cut=not there))

    def _fail(self, fault: Fault) -> str | None:
        link = self._rng.choice(self._links.names)
        if link in self._ends:
            return None
        self._links.set(link, fault)
        if fault.reset_all:
            self._links.set(link)
            return link
        silent = self._silent and self._rng.random() < 0.1
        lasts_s = SILENT_S if silent else self._lasts_s()
        self._ends[link] = (time.monotonic() + lasts_s, partial(self._links.set, link, HEALED))
        return f"{link} for {lasts_s:g} s"


def _continue(broker: GeoBroker) -> None:
    assert broker.process is not None
    broker.process.send_signal(signal.SIGCONT)


def catch_up(clusters: Sequence[GeoCluster], topics: int) -> list[str]:
    """Wait until each replicator of each topic has no backlog; return what is wrong with those that keep one."""
    wanted = topics * (len(clusters) - 1)
    until = time.monotonic() + CAUGHT_UP_S
    while True:
        backlogs = {cluster.name: cluster.backlogs() for cluster in clusters}
        wrong = [
            f"{name}: {len(sizes)} replicators of {wanted}, {sum(sizes)} entries not sent"
            for name, sizes in backlogs.items()
            if len(sizes) != wanted or sum(sizes)
        ]
        if not wrong or time.monotonic() > until:
            return wrong
        time.sleep(1)


def run(
    folder: Path,
    *,
    seconds: float,
    topics: int = 20,
    rate: float = 600.0,
    seed: int = 1,
    names: Sequence[str] = NAMES,
    brokers: int = 2,
    say: Say,
) -> list[str]:
    """Run a campaign; return the promises that were broken."""
    with replicated_clusters(folder, names, brokers) as (clusters, links):
        urls = {cluster.name: cluster.url for cluster in clusters}
        sent = [f"persistent://{NAMESPACE}/t{number}" for number in range(topics)]
        traffic = Traffic(urls, sent, rate, str(folder / "clients.log"))
        campaign = Campaign(clusters, links, seed, silent=seconds > 300, say=say)
        try:
            problems = catch_up(clusters, topics)
            traffic.begin()
            until = time.monotonic() + seconds
            while time.monotonic() < until and not problems:
                campaign.strike()
                time.sleep(1)
                campaign.end_due()
            campaign.end_due(all_of_them=True)
            say(f"all is well again, {traffic.confirmed} confirmed; {dict(campaign.done)}")
            traffic.stop_sending(RECEIPTS_S)
            began = time.monotonic()
            problems += catch_up(clusters, topics)
            say(f"no backlog after {time.monotonic() - began:.1f} s")
            traffic.wait_all(traffic.holdings, QUIET_S)
            audit = traffic.audit()
            traffic.wait_all(audit, QUIET_S)
            for holding in audit:
                holding.close()
            problems += [f"live: {text}" for text in traffic.problems(traffic.holdings)]
            problems += [f"audit: {text}" for text in traffic.problems(audit)]
            count = sum(stream.sent for stream in traffic.streams)
            say(f"{count} messages sent, {sum(h.received for h in audit)} held by {len(clusters)}")
            return problems
        finally:
            campaign.end_due(all_of_them=True)
            traffic.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.geo.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of faults")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--rate", type=float, default=600.0, help="messages per second in all")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and their order")
    parser.add_argument("--dir", type=Path, help="keep data and logs here")
    arguments = parser.parse_args()
    folder = arguments.dir or Path(tempfile.mkdtemp(prefix="geo-"))
    say = partial(print, flush=True)
    problems = ["it ended early"]
    try:
        problems = run(
            folder,
            seconds=arguments.seconds,
            topics=arguments.topics,
            rate=arguments.rate,
            seed=arguments.seed,
            say=say,
        )
    finally:
        if problems or arguments.dir is not None:
            say(f"data and logs: {folder}")
        else:
            shutil.rmtree(folder)
    for problem in problems:
        say(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
