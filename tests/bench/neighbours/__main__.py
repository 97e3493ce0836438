"""Effect of a noisy tenant on a quiet one: ``python -m tests.bench.neighbours [--only 'topic|group']``.

The quiet one publishes and receives 200 messages of 1 KB a second. The noisy one, in another process over four
connections or a hundred, sends nothing, what its quota allows, and ten times that, by turns and for two seconds
each; of a round all turns of a kind count together. Before each of them both have a second to settle. The quota is a
publish rate (of topics, of the namespace, of a resource group) or a dispatch rate on a backlog; without one the table
shows what it is good for.

Beside Apache Pulsar, an earlier revision of ours (``--revision``), or neither (``--alone``). Prints medians of the
rounds and asserts nothing.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import MagnetarError
from tests.bench import raw
from tests.bench.contenders import Contender, contenders
from tests.bench.figures import Figures, Results, percentile, short, table
from tests.bench.loads import WINDOW, counts_of
from tests.bench.neighbours.quiet import Quiet
from tests.support.instance import ROOT

QUOTA = 2_000
"""Messages of 1 KB a second."""
TIMES = 10
TOPICS = 4
MANY = 100
"""Connections."""
SETTLES_S = 1.0
TURN_S = 2.0
TURNS = 5
APPLIES_S = 2.0
GROUP_APPLIES_S = 70.0
"""Apache's brokers look at the use of resource groups once a minute."""

Rate = dict[str, int]
Ask = Callable[[str, str, object], None]


@dataclass(frozen=True)
class Quota:
    """``set_by``: what sets it by REST for a namespace and its topics. ``receives``: the noisy tenant has a backlog."""

    set_by: Callable[[Ask, str, list[str]], None]
    receives: bool = False
    connections: int = TOPICS


def _publish_rate(messages: int) -> Rate:
    return {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": -1}


def _of_topics(ask: Ask, namespace: str, topics: list[str]) -> None:
    for topic in topics:
        path = f"/admin/v2/{topic.replace('://', '/')}/publishRate"
        ask("POST", path, _publish_rate(QUOTA // len(topics)))


def _of_namespace(ask: Ask, namespace: str, topics: list[str]) -> None:
    path = f"/admin/v2/namespaces/{namespace}/publishRate"
    ask("POST", path, _publish_rate(QUOTA // len(topics)))


def _of_group(ask: Ask, namespace: str, topics: list[str]) -> None:
    group = namespace.replace("/", "-")
    rates = {"publishRateInMsgs": QUOTA, "publishRateInBytes": QUOTA * 1_000_000}
    ask("PUT", f"/admin/v2/resourcegroups/{group}", rates)
    ask("POST", f"/admin/v2/namespaces/{namespace}/resourcegroup/{group}", None)


def _of_dispatch(ask: Ask, namespace: str, topics: list[str]) -> None:
    rate = {
        "dispatchThrottlingRateInMsg": QUOTA // len(topics),
        "dispatchThrottlingRateInByte": -1,
        "ratePeriodInSecond": 1,
        "relativeToPublishRate": False,
    }
    ask("POST", f"/admin/v2/namespaces/{namespace}/dispatchRate", rate)


def _of_nothing(ask: Ask, namespace: str, topics: list[str]) -> None:
    pass


QUOTAS = {
    "publish rate of topics": Quota(_of_topics),
    "publish rate of a namespace": Quota(_of_namespace),
    "publish rate of a namespace, 100 connections": Quota(_of_namespace, connections=MANY),
    "resource group": Quota(_of_group),
    "resource group, 100 connections": Quota(_of_group, connections=MANY),
    "dispatch rate on a backlog": Quota(_of_dispatch, receives=True),
    "publish, no quota": Quota(_of_nothing),
    "receive a backlog, no quota": Quota(_of_nothing, receives=True),
}


class Noisy:
    """The process of the noisy tenant."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def at(self, rate: float) -> None:
        """Set the rate to so many messages a second. Raises RuntimeError."""
        await self._answer(str(rate))

    async def passed(self) -> int:
        """Return the messages since the rate was set. Raises RuntimeError."""
        return await self._answer("")

    async def _answer(self, line: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n".encode())
        answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the noisy tenant ended")
        return int(answer)


@asynccontextmanager
async def noisy(url: str, topics: list[str], quota: Quota) -> AsyncIterator[Noisy]:
    command = ["-m", "tests.bench.neighbours.noisy", url, *topics]
    command += ["--connections", str(quota.connections)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        *(["--receive"] if quota.receives else []),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Noisy(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@dataclass
class Phase:
    """Results of all turns of one kind."""

    delays: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    took_s: float = 0.0
    passed: int = 0


class Place:
    """The tenants and topics of one quota with one contender."""

    def __init__(self, contender: Contender, name: str) -> None:
        self._contender = contender
        self._quota = QUOTAS[name]
        mark = f"{list(QUOTAS).index(name)}-{time.time_ns()}"
        self._namespace = f"noisy/of-{mark}"
        self._quiet_topic = f"persistent://quiet/default/topic-{mark}"
        self._topics = [f"persistent://{self._namespace}/topic-{n}" for n in range(TOPICS)]

    async def prepare(self) -> None:
        for tenant in ("quiet", "noisy"):
            cluster = json.loads(self._call("GET", "/admin/v2/clusters"))[0]
            clusters = {"allowedClusters": [cluster], "adminRoles": []}
            self._call("PUT", f"/admin/v2/tenants/{tenant}", clusters, 409)
        for namespace in ("quiet/default", self._namespace):
            self._call("PUT", f"/admin/v2/namespaces/{namespace}", None, 409)
        for topic in self._topics:
            self._call("PUT", f"/admin/v2/{topic.replace('://', '/')}")
        if self._quota.receives:
            await self._fill()

        def ask(method: str, path: str, body: object) -> None:
            self._call(method, path, body)

        self._quota.set_by(ask, self._namespace, self._topics)
        slowly = self._quota.set_by is _of_group and self._contender.name == "apache"
        await asyncio.sleep(GROUP_APPLIES_S if slowly else APPLIES_S)

    async def _fill(self) -> None:
        count = int(QUOTA * TIMES * (SETTLES_S + TURN_S) / TOPICS)
        payload = raw.payload_of(1024)
        for topic in self._topics:
            link = await raw.connect(self._contender.url, topic)
            await raw.open_producer(link, topic)
            frames = raw.blocks(payload, count)
            await raw.publish(link, frames, counts_of(frames, payload, count), WINDOW)
            link.close()

    async def round(self, turns: int) -> Figures:
        """Run all phases by turns and return the figures."""
        phases = {times: Phase() for times in (0, 1, TIMES)}
        quiet = await Quiet.open(self._contender.url, self._quiet_topic)
        async with noisy(self._contender.url, self._topics, self._quota) as neighbour:
            for turn in range(turns):
                order = list(phases)
                for times in order[turn % len(order) :] + order[: turn % len(order)]:
                    await self._turn(phases[times], quiet, neighbour, times)
        quiet.close()
        return _figures(phases)

    async def _turn(self, phase: Phase, quiet: Quiet, neighbour: Noisy, times: int) -> None:
        await neighbour.at(QUOTA * times)
        await quiet.delays(SETTLES_S)
        before = await neighbour.passed()
        cpu, began = self._contender.cpu_s(), time.perf_counter()
        phase.delays += await quiet.delays(TURN_S)
        phase.cpu_s += self._contender.cpu_s() - cpu
        phase.took_s += time.perf_counter() - began
        phase.passed += await neighbour.passed() - before
        await neighbour.at(0)
        for topic in self._topics:  # what is under way would pass after this turn
            path = f"/admin/v2/{topic.replace('://', '/')}/unload"
            await asyncio.to_thread(self._call, "PUT", path)

    def _call(self, method: str, path: str, body: object = None, allowed: int = 0) -> bytes:
        """Call REST and return the body. Raises RuntimeError for an answer that is neither a success nor
        ``allowed``."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = self._contender.http + path
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return bytes(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            if error.code == allowed:
                return text
            raise RuntimeError(f"{method} {path}: {error.code} {text[:300]!r}") from error


def _figures(phases: dict[int, Phase]) -> Figures:
    names = {0: "without it", 1: "at its quota", TIMES: f"at {TIMES} times"}
    figures: Figures = {}
    for share in (0.5, 0.9, 0.99):
        at = {times: percentile(phase.delays, share) * 1e3 for times, phase in phases.items()}
        label = f"p{share * 100:.0f}"
        figures |= {f"{label} ms, {names[times]}": value for times, value in at.items()}
        figures[f"{label}, {names[1]} / without"] = at[1] / at[0]
        figures[f"{label}, {names[TIMES]} / without"] = at[TIMES] / at[0]
        figures[f"{label}, {names[TIMES]} / {names[1]}"] = at[TIMES] / at[1]
    for times, phase in phases.items():
        figures[f"cores, {names[times]}"] = phase.cpu_s / phase.took_s
        if times:
            figures[f"noisy messages/s, {names[times]}"] = phase.passed / phase.took_s
    return figures


def _run(
    name: str, contender: Contender, work: Coroutine[None, None, Figures | None]
) -> Figures | None:
    """Return the figures of ``work``, None when it fails."""
    try:
        return asyncio.run(work)
    except (MagnetarError, RuntimeError, TimeoutError, OSError) as error:
        print(f"{name}: {contender.name} failed: {error!r}", flush=True)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="after one to warm up")
    parser.add_argument("--scale", type=float, default=1.0, help=f"1: {TURNS} turns of each kind")
    parser.add_argument(
        "--only", default="", help="quotas whose name contains this, or one of several with |"
    )
    parser.add_argument("--revision", default="", help="beside this git revision of ours")
    parser.add_argument("--alone", action="store_true", help="without Apache")
    args = parser.parse_args()
    parts = args.only.split("|")
    chosen = [name for name in QUOTAS if any(part in name for part in parts)]
    results: Results = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        contenders(Path(folder), args.revision, args.alone) as running,
    ):
        running = [contender for contender in running if contender.http]  # the floor has no quotas
        for name in chosen:
            places = [Place(contender, name) for contender in running]
            for contender, place in zip(running, places, strict=True):
                _run(name, contender, place.prepare())
            for number in range(args.rounds + 1):
                for at in range(len(running))[:: 1 if number % 2 else -1]:
                    turns = max(int(TURNS * args.scale), 1) if number else 1
                    figures = _run(name, running[at], places[at].round(turns))
                    if figures and number:
                        results.setdefault((name, running[at].name), {})[number] = figures
                        print(
                            f"round {number} {name} {running[at].name} {short(figures)}", flush=True
                        )
        mine, *others = (contender.name for contender in running)
        print("", *table(chosen, [mine], others, results), sep="\n")
    print(f"\nload average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
