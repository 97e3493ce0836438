"""``python -m tests.fuzz.live --frames N``: an instance whose broker receives anything, on many connections at a time.

Beside them an official client publishes and receives, and measures how long a message takes. Phases of good
conversations and of hostile ones alternate at the same pace, so that they differ in their contents only. Prints
messages' times of both, memory, connections and open files of the broker after each phase; status 1 when the broker was
not the same process in the end, logged a failure, kept a connection open that its client had left, or lost one message.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.conversations import NAMESPACE, Conversations
from tests.support.instance import Instance, running_instance

CONNECTIONS = 16
"""Connections open at a time."""
CLOSED_WITHIN_S = 30.0
"""Time that the broker may take to close a connection whose client has closed its side."""
HONEST_PER_S = 50
TOPICS_MAX = 200


@dataclass
class Counts:
    """Counts of one phase, and conversations whose connection was kept open, in hexadecimal."""

    conversations: int = 0
    frames: int = 0
    kept_open: list[str] = field(default_factory=list)


async def talk(port: int, data: bytes, draw: random.Random, counts: Counts) -> None:
    """Play one connection from its first byte until the broker closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        middle = draw.randrange(len(data) + 1)
        writer.write(data[:middle])
        if draw.random() < 0.5:
            await asyncio.sleep(draw.random() * 0.02)
        writer.write(data[middle:])
        if draw.random() < 0.5:
            await asyncio.sleep(draw.random() * 0.05)
        if draw.random() < 0.1:
            writer.transport.abort()
        else:
            writer.write_eof()
            async with asyncio.timeout(CLOSED_WITHIN_S):
                while await reader.read(1 << 16):
                    pass
    except TimeoutError:
        counts.kept_open.append(data.hex())
    except OSError:
        pass  # the broker closed it first
    finally:
        writer.close()
    counts.conversations += 1
    counts.frames += count_frames(data)


def count_frames(data: bytes) -> int:
    """Return the number of whole frames; remaining bytes count as one."""
    pos = count = 0
    while pos < len(data):
        pos += 4 + int.from_bytes(data[pos : pos + 4], "big")
        count += 1
    return count


async def phase(port: int, talks: Conversations, count: int, per_s: float, seed: int) -> Counts:
    """Send ``count`` frames, in conversations begun at ``per_s``; return the counts."""
    counts, draw = Counts(), random.Random(seed)
    room = asyncio.Semaphore(CONNECTIONS)
    began, talking = time.monotonic(), set[asyncio.Task[None]]()

    async def talk_within_limit(data: bytes) -> None:
        async with room:
            await talk(port, data, draw, counts)

    for number, data in enumerate(talks):
        if counts.frames >= count:
            break
        await asyncio.sleep(max(0.0, began + number / per_s - time.monotonic()))
        async with room:  # at most as many tasks wait as talk
            pass
        task = asyncio.create_task(talk_within_limit(data))
        talking.add(task)
        task.add_done_callback(talking.discard)
    await asyncio.gather(*talking)
    return counts


def honest(url: str) -> None:
    """Publish and receive a message every 20 ms until "end" is read from standard input; check that each is received in
    order. Prints sent-to-received times as JSON for each "phase", of one message at least."""
    import pulsar

    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    topic = "persistent://public/default/honest"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    os.set_blocking(0, False)
    times: list[float] = []
    line = ""
    while line != "end\n":
        began = time.monotonic()
        text = str(began).encode()
        producer.send(text)
        message = consumer.receive(60_000)
        assert message.data() == text, "a message was lost, or received twice"
        consumer.acknowledge(message)
        times.append(time.monotonic() - began)
        try:
            line = sys.stdin.readline()
        except OSError:
            line = ""
        if line == "phase\n":
            print(json.dumps(times), flush=True)
            times = []
        time.sleep(max(0.0, began + 1 / HONEST_PER_S - time.monotonic()))
    client.close()


class Honest:
    """The official client in a process of its own, whose messages are measured."""

    def __init__(self, url: str) -> None:
        """Start the client; return when its first message was received."""
        command = [sys.executable, "-m", "tests.fuzz.live", "--honest", url]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.times()

    def times(self) -> list[float]:
        """Return the seconds that each message took since the last call; none when the client has failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("phase\n")
            self._process.stdin.flush()
        return [float(took) for took in json.loads(self._process.stdout.readline() or "[]")]

    def ended_well(self) -> bool:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("end\n")
            self._process.stdin.close()
        return self._process.wait(60) == 0


def figures(instance: Instance) -> dict[str, float]:
    """Return figures of the broker's process: its id, resident MiB, open files, CPU seconds."""
    pid = instance.child("broker-1")["pid"]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return {
        "pid": pid,
        "MiB": int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 / 1024,
        "files": len(os.listdir(f"/proc/{pid}/fd")),
        "CPU s": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
    }


def shares(times: list[float]) -> str:
    """Return the times that half, 99 of 100 and all of them took at most, in milliseconds."""
    if not times:
        return "no message measured"
    ordered = sorted(times)
    return "  ".join(
        f"{name} {ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3:7.1f} ms"
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    )


def failures(instance: Instance, part: str = "broker-1") -> list[str]:
    """Return the errors and tracebacks in a part's log, each with the lines behind it."""
    log = (instance.data_dir / "logs" / f"{part}.log").read_text(errors="replace")
    records = re.split(r"^(?=\d{4}-\d\d-\d\dT)", log, flags=re.MULTILINE)
    return [
        record.strip() for record in records if "Traceback" in record or " ERROR " in record[:40]
    ]


def campaign(instance: Instance, count: int, rounds: int, per_s: float, seed: int) -> int:
    """Print a row per phase and the findings; return the number of findings."""
    instance.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")
    instance.rest("POST", f"/admin/v2/namespaces/{NAMESPACE}/maxTopicsPerNamespace", TOPICS_MAX)
    instance.rest("PUT", f"/admin/v2/persistent/{NAMESPACE}/whole/partitions", 2)
    beside = Honest(instance.url)
    first = figures(instance)
    findings: list[str] = []
    talks = {name: Conversations(seed, hostile=name == "hostile") for name in ("good", "hostile")}
    times: dict[str, list[float]] = {name: [] for name in talks}
    for number in range(rounds):
        for name in talks:
            before = figures(instance)
            counts = asyncio.run(
                phase(instance.ports["BROKER"], talks[name], count // rounds, per_s, seed + number)
            )
            took = beside.times()
            times[name] += took
            after = figures(instance)
            print(
                f"{name:8} {counts.conversations:7} conversations {counts.frames:8} frames  "
                f"{shares(took)}  {after['MiB']:6.1f} MiB {after['files']:5.0f} files  "
                f"{(after['CPU s'] - before['CPU s']) / max(counts.frames, 1) * 1e6:6.0f} us a frame",
                flush=True,
            )
            findings += [f"kept open after {data[:2000]}" for data in counts.kept_open]
            if after["pid"] != first["pid"]:
                findings.append("the broker was started again")
    for name in talks:
        print(f"{name:8} {len(times[name]):7} honest messages  {shares(times[name])}")
    if not beside.ended_well():
        findings.append("the honest client failed")
    findings += failures(instance)
    for finding in findings[:20]:
        print(f"FOUND {finding}")
    print(f"{len(findings)} findings")
    return len(findings)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.live", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="of either kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--per-s", type=float, default=100, help="conversations begun a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--honest", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.honest:
        honest(arguments.honest)
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as directory,
        running_instance(Path(directory)) as instance,
    ):
        findings = campaign(
            instance, arguments.frames, arguments.rounds, arguments.per_s, arguments.seed
        )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
