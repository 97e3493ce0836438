"""``python -m tests.fuzz.live --frames N``: an instance whose broker is told anything, on many connections at a time.

Beside them an official client publishes and receives, and measures how long a message takes. Phases of good
conversations and of hostile ones alternate at the same pace, so that what differs is what was said. Prints messages'
times of both, memory, connections and open files of the broker after each phase; status 1 when the broker was not the
same process in the end, logged a failure, kept a connection open that its client had left, or lost one message.
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
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.conversations import NAMESPACE, Conversations
from tests.support.instance import Instance, running_instance

CONNECTIONS = 16
"""At a time."""
CLOSED_WITHIN_S = 30.0
"""How long the broker may take to let go of a connection whose client has nothing more to say."""
HONEST_PER_S = 50
TOPICS_MAX = 200


@dataclass
class Said:
    """What one phase said, and what was wrong with the answers."""

    conversations: int = 0
    frames: int = 0
    kept_open: list[str] = field(default_factory=list)


async def talk(port: int, data: bytes, draw: random.Random, said: Said) -> None:
    """One connection from its first byte to the broker's end of it."""
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
        said.kept_open.append(data.hex())
    except OSError:
        pass  # the broker was first
    finally:
        writer.close()
    said.conversations += 1
    said.frames += count_frames(data)


def count_frames(data: bytes) -> int:
    """Whole frames, and what is left as one."""
    pos = count = 0
    while pos < len(data):
        pos += 4 + int.from_bytes(data[pos : pos + 4], "big")
        count += 1
    return count


async def phase(port: int, talks: Conversations, count: int, per_s: float, seed: int) -> Said:
    """``count`` frames, in conversations begun at ``per_s``."""
    said, draw = Said(), random.Random(seed)
    room = asyncio.Semaphore(CONNECTIONS)
    began, talking = time.monotonic(), set[asyncio.Task[None]]()

    async def one(data: bytes) -> None:
        async with room:
            await talk(port, data, draw, said)

    for number, data in enumerate(talks):
        if said.frames >= count:
            break
        await asyncio.sleep(max(0.0, began + number / per_s - time.monotonic()))
        async with room:  # no more wait than talk
            pass
        task = asyncio.create_task(one(data))
        talking.add(task)
        task.add_done_callback(talking.discard)
    await asyncio.gather(*talking)
    return said


def honest(url: str) -> None:
    """Until standard input ends: a message every 20 ms; prints sent-to-received times as JSON, in order and all."""
    import pulsar

    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    topic = "persistent://public/default/honest"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    os.set_blocking(0, False)
    times: list[float] = []
    while True:
        try:
            told = sys.stdin.readline()
        except OSError:
            told = ""
        if told == "phase\n":
            print(json.dumps(times), flush=True)
            times = []
        elif told == "end\n":
            break
        began = time.monotonic()
        text = str(began).encode()
        producer.send(text)
        message = consumer.receive(60_000)
        assert message.data() == text, "a message was lost, or came twice"
        consumer.acknowledge(message)
        times.append(time.monotonic() - began)
        time.sleep(max(0.0, began + 1 / HONEST_PER_S - time.monotonic()))
    client.close()


def figures(instance: Instance) -> dict[str, float]:
    """Of the broker's process: resident MiB, open files, CPU seconds."""
    pid = instance.child("broker-1")["pid"]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return {
        "pid": pid,
        "MiB": int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 / 1024,
        "files": len(os.listdir(f"/proc/{pid}/fd")),
        "CPU s": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
    }


def shares(times: list[float]) -> str:
    """Half, 99 of 100 and all of them took at most, in milliseconds."""
    ordered = sorted(times)
    return "  ".join(
        f"{name} {ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3:7.1f}"
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    )


def failures(instance: Instance, part: str = "broker-1") -> list[str]:
    """Return what a part's log has of errors that nobody expected, with the lines behind each."""
    log = (instance.data_dir / "logs" / f"{part}.log").read_text(errors="replace")
    records = re.split(r"^(?=\d{4}-\d\d-\d\dT)", log, flags=re.MULTILINE)
    return [one.strip() for one in records if "Traceback" in one or " ERROR " in one[:40]]


def campaign(instance: Instance, count: int, rounds: int, per_s: float, seed: int) -> int:
    """Prints a row per phase; the number of findings."""
    instance.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")
    instance.rest("POST", f"/admin/v2/namespaces/{NAMESPACE}/maxTopicsPerNamespace", TOPICS_MAX)
    instance.rest("PUT", f"/admin/v2/persistent/{NAMESPACE}/whole/partitions", 2)
    command = [sys.executable, "-m", "tests.fuzz.live", "--honest", instance.url]
    pipe = subprocess.PIPE
    beside = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert beside.stdin is not None
    assert beside.stdout is not None
    first = figures(instance)
    found: list[str] = []
    talks = {name: Conversations(seed, hostile=name == "hostile") for name in ("good", "hostile")}
    times: dict[str, list[float]] = {name: [] for name in talks}
    for number in range(rounds):
        for name in talks:
            before = figures(instance)
            said = asyncio.run(
                phase(instance.ports["BROKER"], talks[name], count // rounds, per_s, seed + number)
            )
            beside.stdin.write("phase\n")
            beside.stdin.flush()
            took = json.loads(beside.stdout.readline() or "[]")
            times[name] += took
            after = figures(instance)
            print(
                f"{name:8} {said.conversations:7} conversations {said.frames:8} frames  "
                f"{shares(took)} ms  {after['MiB']:6.1f} MiB {after['files']:5.0f} files  "
                f"{(after['CPU s'] - before['CPU s']) / max(said.frames, 1) * 1e6:6.0f} us a frame",
                flush=True,
            )
            found += [f"kept open after {data[:2000]}" for data in said.kept_open]
            if after["pid"] != first["pid"]:
                found.append("the broker was started again")
    for name in talks:
        print(f"{name:8} {len(times[name]):7} honest messages  {shares(times[name])} ms")
    beside.stdin.write("end\n")
    beside.stdin.close()
    if beside.wait(60):
        found.append("the honest client failed")
    found += failures(instance)
    for one in found[:20]:
        print(f"FOUND {one}")
    print(f"{len(found)} findings")
    return len(found)


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
        found = campaign(
            instance, arguments.frames, arguments.rounds, arguments.per_s, arguments.seed
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
