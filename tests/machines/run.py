"""``python -m tests.machines.run [--namespaces]``: machines of a cluster killed, stopped, suspended and cut off, one at
a time, while official clients publish and consume through brokers and proxy with TLS and tokens.

Nothing that was confirmed is lost or reordered. During each fault a gateway that lives names what is away, after it
every part is reported well, and at rest the console's backlog is what the consumers then receive. Status 1 otherwise.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pulsar

from gateway.standalone.secure import SUPERUSER
from tests.crash.load import quiet_client
from tests.crash.traffic import Traffic
from tests.machines.cluster import BACK, FRONT, SESSION_MS, STORES, MachineCluster, missing
from tests.machines.places import Loopback, Namespaces

KEPT = [f"persistent://public/default/kept-{i}" for i in range(4)]
PRODUCERS, RATE = 8, 800.0
RECEIPTS_S = 60.0
"""Longest time until every producer has receipts again, on a busy host."""
NOTICED_S, WELL_S = 45.0, 90.0
"""Longest time until the console names what is away, and until it reports all well again."""
QUIET_S = 30.0
ROW = "/api/v1/clusters/standalone/topics/persistent/public/default/{}"

Say = Callable[[str], None]


class Campaign:
    """Faults of a cluster under traffic. ``problems`` are the promises that were broken."""

    def __init__(self, cluster: MachineCluster, traffic: Traffic, say: Say) -> None:
        self._cluster = cluster
        self._traffic = traffic
        self._say = say
        self._began = time.monotonic()
        self.problems: list[str] = []

    def faults(self, links: Namespaces | None) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the faults with their names, the cheapest first."""
        machines = self._cluster.machines
        for number in machines:
            yield f"kill machine {number}", partial(self._kill, number)
        for number in STORES:
            yield f"stop machine {number}", partial(self._stop, number)
        yield "suspend machine 2", partial(self._suspend, 2)
        if links is not None:
            yield "cut 1 off from 2, one way", partial(self._cut, links, [(1, 2)])
            yield (
                "cut 3 off from all stores",
                partial(self._cut, links, [(3, 1), (1, 3), (3, 2), (2, 3)]),
            )
            # Topics of a broker that its proxy cannot reach wait until it can.
            yield (
                "cut the front off from 1, one way",
                partial(self._cut, links, [(FRONT, 1)], serves=False),
            )
            yield "slow machine 3", partial(self._slow, links, 3)

    def strike(self, name: str, fault: Callable[[], None]) -> None:
        """Cause a fault and its end, then wait until all is well."""
        began = time.monotonic()
        for stream in self._traffic.streams.values():
            stream.longest_gap_s = 0.0
        try:
            fault()
            self._traffic.wait_confirmed(20, RECEIPTS_S)
        except TimeoutError as error:
            self.problems.append(f"{name}: {error}")
        self._await_well(name)
        self._say(
            f"{time.monotonic() - self._began:6.1f} s  {self._traffic.confirmed:>8} confirmed  {name}, "
            f"{time.monotonic() - began:.1f} s, longest publish gap {self._traffic.longest_gap_s:.1f} s"
        )

    def _kill(self, number: int) -> None:
        machine = self._cluster.machines[number]
        machine.end()
        try:
            self._go_on_without(number)
        finally:
            machine.start()
            machine.wait_ready()

    def _stop(self, number: int) -> None:
        machine = self._cluster.machines[number]
        machine.end(signal.SIGTERM)
        try:
            self._go_on_without(number)
        finally:
            machine.start()
            machine.wait_ready()

    def _suspend(self, number: int) -> None:
        machine = self._cluster.machines[number]
        machine.pause(stopped=True)
        try:
            self._go_on_without(number)
        finally:
            machine.pause(stopped=False)

    def _cut(self, links: Namespaces, pairs: list[tuple[int, int]], *, serves: bool = True) -> None:
        """Cut links for two session timeouts; with ``serves`` everything is published meanwhile."""
        for source, target in pairs:
            links.cut(source, target)
        try:
            if serves:
                self._traffic.wait_confirmed(20, RECEIPTS_S)
            time.sleep(2 * SESSION_MS / 1000)  # time: sessions end meanwhile, where they do
        finally:
            for source, target in pairs:
                links.mend(source, target)

    def _slow(self, links: Namespaces, number: int) -> None:
        links.slow(number, 2_000)
        try:
            self._traffic.wait_confirmed(20, RECEIPTS_S)
            time.sleep(2 * SESSION_MS / 1000)  # time: the machine stays slow for a while
        finally:
            links.slow(number, 0)

    def _go_on_without(self, number: int) -> None:
        """Wait until everything is served without a machine, and the console names what is away."""
        if number in STORES:
            self._traffic.wait_confirmed(20, RECEIPTS_S)
        host = self._cluster.hosts[number]
        away = {
            FRONT: set(),
            BACK: {("redis", ""), ("database", "")},
        }.get(number, {("broker", f"{host}:8081"), ("bookie", f"{host}:3181")})
        watcher = BACK if number == FRONT else FRONT
        self._await_console(watcher, f"machine {number} is away", away)

    def _await_console(self, watcher: int, name: str, away: set[tuple[str, str]]) -> None:
        """Wait until a gateway reports that ``away`` are not well, whatever it reports of others."""
        until, reported = time.monotonic() + NOTICED_S, None
        while time.monotonic() < until:
            reported = self._cluster.console(watcher, "/api/v1/health")
            if reported is not None:
                hops = {(hop["hop"], hop["id"]): hop["state"] for hop in reported["hops"]}
                # A broker or bookie whose registration ended is in the list no more.
                if all(hops.get(part, "gone") not in ("ok", "slow") for part in away):
                    return
            time.sleep(0.3)
        self.problems.append(f"{name}: gateway {watcher} reports {reported}, not {away} as away")

    def _await_well(self, name: str) -> None:
        until = time.monotonic() + WELL_S
        while bad := self._not_well():
            if time.monotonic() > until:
                self.problems.append(f"{name}: not well after {WELL_S:.0f} s: {bad}")
                return
            for machine in self._cluster.machines.values():
                machine.restart_ended()
            time.sleep(0.3)

    def _not_well(self) -> list[str]:
        """Return the parts that a gateway does not report as well; the analyses' are not part of the cluster."""
        bad = []
        for number in (FRONT, BACK):
            reported = self._cluster.console(number, "/api/v1/health")
            if reported is None:
                bad.append(f"gateway {number}")
                continue
            hops = [hop for hop in reported["hops"] if hop["hop"] != "spark"]
            bad += [f"{hop['hop']} {hop['id']}" for hop in hops if hop["state"] != "ok"]
            counts = [sum(hop["hop"] == kind for hop in hops) for kind in ("broker", "bookie")]
            if counts != [len(STORES), len(STORES)]:
                bad.append(f"{counts} brokers and bookies at gateway {number}")
        return bad

    def backlogs(self) -> dict[str, int]:
        """Return the entries that each topic's audit has not received, as the console reports them at rest."""
        until = time.monotonic() + WELL_S
        shown: dict[str, int] = {}
        for topic in KEPT:
            before = None
            while True:
                page = self._cluster.console(FRONT, ROW.format(topic.rpartition("/")[2]))
                rows = (page or {}).get("subscriptions") or []
                now = next((row["backlog"] for row in rows if row["name"] == "audit"), None)
                if now is not None and now == before:
                    break
                if time.monotonic() > until:
                    self.problems.append(f"the backlog of {topic} is not known: {page}")
                    break
                before = now
                time.sleep(2.5)  # time: two rounds of the console's figures that agree
            shown[topic] = now if now is not None else -1
        return shown


def run(
    folder: Path, *, namespaces: bool = False, rounds: int = 1, only: Sequence[str] = (), say: Say
) -> list[str]:
    """Run a campaign of the faults named (``only``; all without names); return the promises that were broken."""
    links = Namespaces(BACK) if namespaces else None
    cluster = MachineCluster(folder, links or Loopback())
    traffic: Traffic | None = None
    try:
        cluster.start()
        say("all parts serve")
        token = cluster.files.token(SUPERUSER).read_text()
        connect = partial(
            quiet_client,
            log=str(folder / "clients.log"),
            authentication=pulsar.AuthenticationToken(token),
            tls_trust_certs_file_path=str(cluster.files.authority),
            tls_validate_hostname=True,
        )
        urls = [cluster.brokers_url, cluster.proxy_url]
        traffic = Traffic(urls, connect, KEPT, [], PRODUCERS, RATE)
        campaign = Campaign(cluster, traffic, say)
        traffic.wait_confirmed(20, RECEIPTS_S)
        for _ in range(rounds):
            for name, fault in campaign.faults(links):
                if not only or name in only:
                    campaign.strike(name, fault)
        traffic.stop_sending(RECEIPTS_S)
        for reading in traffic.readings:
            reading.wait_all(QUIET_S)
        shown = campaign.backlogs()
        audits = traffic.audit()
        for audit in audits:
            audit.wait_all(QUIET_S)
        for audit in audits:
            audit.close()
            if shown[audit.topic] != len(audit.entries):
                campaign.problems.append(
                    f"the console reports a backlog of {shown[audit.topic]} entries of {audit.topic}, "
                    f"{len(audit.entries)} were received"
                )
        wrong = {name: count for name, count in traffic.wrong(audits).items() if count}
        campaign.problems += [f"{count} messages {name}" for name, count in wrong.items()]
        say(f"{traffic.confirmed} confirmed")
        return campaign.problems
    finally:
        if traffic is not None:
            traffic.close()
        cluster.stop()
        cluster.place.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machines.run", description=__doc__)
    parser.add_argument("--namespaces", action="store_true", help="machines whose links are cut")
    parser.add_argument("--rounds", type=int, default=1, help="of all faults")
    parser.add_argument("--only", nargs="*", default=(), help="these faults and no others")
    parser.add_argument("--dir", type=Path, help="keep data and logs here")
    arguments = parser.parse_args()
    reason = missing() or (Namespaces.missing() if arguments.namespaces else "")
    if reason:
        print(f"skipped: {reason}")
        return 0
    folder = arguments.dir or Path(tempfile.mkdtemp(prefix="machines-"))
    folder.mkdir(parents=True, exist_ok=True)
    say = partial(print, flush=True)
    problems = ["it ended early"]
    try:
        problems = run(
            folder,
            namespaces=arguments.namespaces,
            rounds=arguments.rounds,
            only=arguments.only,
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
