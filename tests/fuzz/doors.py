"""``python -m tests.fuzz.doors --minutes 30``: an instance whose three doors receive extreme claims, see ``claims.py``.

Quiet phases and hostile ones alternate; an official client beside them measures how long a message takes. Prints its
times, and memory of broker, bookie and gateway after each phase. Status 1 when an honest message of the hostile phases
took more than three times that of the quiet ones (99 of 100), a process was not the same in the end, outgrew its
bound, or logged a failure, a request got no answer or one that blames the server, or a connection was kept open.
"""

import argparse
import asyncio
import http.client
import logging
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import websockets
from websockets.sync.client import connect

from tests.fuzz.claims import KEYED, NAMESPACE, Claims, rest_call, socket_path, socket_text
from tests.fuzz.live import Counts, Honest, failures, shares, talk
from tests.support.instance import Instance, running_instance

PARTS = {"broker-1": 500, "bookie-1": 400, "gateway": 500}
"""Processes that must not end, and the resident MiB that each may not exceed."""
PHASE_S = 15.0
REQUEST_S = 20.0
"""Above the gateway's own timeout for a broker, so that its answer arrives first."""
HANDSHAKE_S = 5.0
"""Bound of the answer to a WebSocket handshake. A broker that refuses for now is asked again for 10 s."""
NOT_OURS = {501, 503}
"""Statuses above 499 that are no findings: not implemented, and temporarily unavailable."""
QUIET_P99_MIN_S = 0.005
QUIET_LOG = logging.getLogger("hostile")
"""Log of the hostile sockets; the library logs a stack when bytes arrive after it stopped waiting for peer's close."""
QUIET_LOG.disabled = True


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 / 1024


class Campaign:
    """Hostile clients of each door, in threads, and their findings."""

    def __init__(self, instance: Instance, seed: int, per_s: float) -> None:
        self._instance = instance
        self._draw = random.Random(seed)
        self._claims = iter(Claims(seed))
        self._pause_s = 1 / per_s
        self.found: list[str] = []
        self.done: Counter[str] = Counter()

    def find(self, finding: str) -> None:
        """Note a finding and print it with the time, by which the logs can be searched."""
        self.found.append(finding)
        print(f"{datetime.now(UTC):%H:%M:%S.%f} FOUND {finding}", flush=True)

    def phase(self) -> None:
        """Run hostile clients of all three doors for PHASE_S."""
        until = time.monotonic() + PHASE_S  # time: how long clients are hostile
        doors = [
            threading.Thread(target=door, args=(until,))
            for door in (self._binary, self._rest, self._sockets)
        ]
        for door in doors:
            door.start()
        for door in doors:
            door.join()

    def _binary(self, until: float) -> None:
        async def talks() -> None:
            counts = Counts()
            while time.monotonic() < until:
                data = next(self._claims)
                await talk(self._instance.ports["BROKER"], data, self._draw, counts)
                await asyncio.sleep(self._pause_s)
            self.done["conversations"] += counts.conversations
            for data in counts.kept_open:
                self.find(f"kept open after {data[:400]}")

        asyncio.run(talks())

    def _rest(self, until: float) -> None:
        draw = random.Random(self._draw.random())
        while time.monotonic() < until:
            method, path, body = rest_call(draw)
            about = f"{method} {path[:200]} {body[:100]!r}"
            link = http.client.HTTPConnection(
                "127.0.0.1", self._instance.ports["HTTP"], timeout=REQUEST_S
            )
            try:
                link.request(method, path, body or None, {"Content-Type": "application/json"})
                status = link.getresponse().status
                self.done[f"answers {status // 100}xx"] += 1
                if status >= 500 and status not in NOT_OURS:
                    self.find(f"{status} for {about}")
            except TimeoutError:
                self.find(f"no answer in {REQUEST_S:.0f} s to {about}")
            except (OSError, http.client.HTTPException):
                self.done["cut off"] += 1  # the server did not read the request to its end
            finally:
                link.close()
            time.sleep(self._pause_s)

    def _sockets(self, until: float) -> None:
        draw = random.Random(self._draw.random())
        port = self._instance.ports["HTTP"]
        while time.monotonic() < until:
            path = socket_path(draw)
            began, answer = time.monotonic(), "101"
            try:
                with connect(
                    f"ws://127.0.0.1:{port}{path}",
                    open_timeout=REQUEST_S,
                    close_timeout=1,
                    logger=QUIET_LOG,
                ) as socket:
                    self._opened(path, began, answer)
                    for _ in range(draw.choice((1, 20, 300))):
                        socket.send(socket_text(draw))
                    with suppress(TimeoutError):
                        socket.recv(timeout=0.05)
                self.done["sockets"] += 1
            except TimeoutError:
                self.find(f"no handshake in {REQUEST_S:.0f} s of {path[:200]}")
            except websockets.InvalidStatus as error:
                self.done["sockets refused"] += 1
                self._opened(path, began, f"{error.response.status_code} {error.response.body!r}")
            except (OSError, websockets.WebSocketException):
                self.done["sockets closed"] += 1
            time.sleep(self._pause_s)

    def _opened(self, path: str, began: float, answer: str) -> None:
        """Check the answer to a handshake that requested ``path`` at ``began``."""
        took = time.monotonic() - began
        if answer.startswith("504") or took > HANDSHAKE_S:
            self.find(f"{answer[:300]} after {took:.1f} s to {path[:200]}")


def prepare(instance: Instance) -> None:
    instance.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")
    instance.rest("POST", f"/admin/v2/namespaces/{NAMESPACE}/deduplication", True)
    for path in (*(f"t{i}" for i in range(4)), KEYED.rpartition("/")[2]):
        instance.rest("PUT", f"/admin/v2/persistent/{NAMESPACE}/{path}")


def p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)] if times else float("inf")


def campaign(instance: Instance, minutes: float, seed: int, per_s: float) -> int:
    """Play phases; print a row for each and the findings; return how many there are."""
    prepare(instance)
    pids = {part: instance.child(part)["pid"] for part in PARTS}
    hostile, honest = Campaign(instance, seed, per_s), Honest(instance.url)
    times: dict[str, list[float]] = {"quiet": [], "hostile": []}
    most = dict.fromkeys(PARTS, 0.0)
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        for kind in times:
            time.sleep(PHASE_S) if kind == "quiet" else hostile.phase()
            took = honest.times()
            times[kind] += took
            for part, pid in pids.items():
                if instance.child(part)["pid"] != pid:
                    hostile.find(f"{part} was started again")
                    pids[part] = instance.child(part)["pid"]
                most[part] = max(most[part], resident_mib(pids[part]))
            memory = "  ".join(f"{part} {mib:.0f}" for part, mib in most.items())
            row = f"{kind:8} {shares(took)}  most MiB: {memory}"
            print(f"{row}  hostile so far: {hostile.done.total()}", flush=True)
    for kind, took in times.items():
        print(f"{kind:8} {len(took):7} honest messages  {shares(took)}")
    print(dict(hostile.done))
    if p99(times["hostile"]) > 3 * max(p99(times["quiet"]), QUIET_P99_MIN_S):
        hostile.find("honest messages took more than three times as long (p99)")
    hostile.found += [
        f"{part} took {mib:.0f} MiB, at most {PARTS[part]}"
        for part, mib in most.items()
        if mib > PARTS[part]
    ]
    if not honest.ended_well():
        hostile.find("the honest client failed")
    for part in PARTS:
        hostile.found += [f"{part}: {record[:1500]}" for record in failures(instance, part)]
    for finding in hostile.found[:40]:
        print(f"FOUND {finding}")
    print(f"{len(hostile.found)} findings")
    return len(hostile.found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.doors", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--per-s", type=float, default=5.0, help="of each door, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--data-dir", help="of the instance, which is kept; otherwise a temporary one"
    )
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = arguments.data_dir or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="doors-")
        )
        instance = stack.enter_context(running_instance(Path(directory)))
        return min(campaign(instance, arguments.minutes, arguments.seed, arguments.per_s), 1)


if __name__ == "__main__":
    sys.exit(main())
