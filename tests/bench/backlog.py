"""A cold backlog: how fast a consumer catches up while others write, and how fast its bookie is back after kill -9.

    python -m tests.bench.backlog [--gigabytes 5] [--size 65536]

One instance, one topic. The backlog is published unbatched; then bookie and broker are killed and started again,
and what the page cache holds of the bookie's files is dropped. ``dd`` reads the same files in the same way for
comparison. A writer on another topic sends 1 KB 200 times a second, alone and beside the reading. Asserts nothing.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.bench import raw
from tests.bench.contenders import cpu_s
from tests.bench.figures import percentile
from tests.support.instance import Instance, running_instance

TOPIC = "persistent://public/default/backlog"
SIDE_TOPIC = "persistent://public/default/beside"
WRITES_PER_S = 200


def cpu_by_name(instance: Instance) -> dict[str, float]:
    return {name: cpu_s([instance.child(name)["pid"]]) for name in ("broker-1", "bookie-1")}


def logs_of(instance: Instance) -> list[Path]:
    """Return the bookie's entry logs."""
    return sorted(p for p in instance.data_dir.rglob("*.log") if "ledgers" in p.parts)


def drop_cached(files: list[Path]) -> None:
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def dd(files: list[Path]) -> float:
    """Return MB/s of ``dd`` over all files."""
    size, began = 0, time.perf_counter()
    for path in files:
        subprocess.run(
            ["dd", f"if={path}", "of=/dev/null", "bs=1M"], check=True, capture_output=True
        )
        size += path.stat().st_size
    return size / (time.perf_counter() - began) / 1e6


def restart(instance: Instance, name: str) -> float:
    """Kill a process by SIGKILL; return seconds until it is ready again, the supervisor's half second included."""
    port = instance.ports["BOOKIE_HTTP" if name.startswith("bookie") else "BROKER_HTTP"]
    began = time.perf_counter()
    os.kill(instance.child(name)["pid"], signal.SIGKILL)
    while time.perf_counter() - began < 120:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                return time.perf_counter() - began
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"{name} is not back")


async def fill(url: str, size: int, count: int) -> float:
    """Publish the backlog; return the seconds."""
    holder = await raw.connect(url, TOPIC)
    await raw.subscribe(holder, TOPIC, "late")  # so that nothing is trimmed
    holder.close()
    link = await raw.connect(url, TOPIC)
    await raw.open_producer(link, TOPIC)
    per_block = max((1 << 20) // size, 1)
    block = raw.send_frame(raw.payload_of(size), 1, 0) * per_block
    took = await raw.publish(
        link, [block] * (count // per_block), [per_block] * (count // per_block), 4 * per_block
    )
    link.close()
    return took


async def write_beside(url: str, stop: asyncio.Event) -> list[float]:
    """Return the seconds from send to receipt of each message, sent one after another at a fixed rate."""
    link = await raw.connect(url, SIDE_TOPIC)
    await raw.open_producer(link, SIDE_TOPIC)
    payload = raw.payload_of(1024)
    took: list[float] = []
    began = time.perf_counter()
    while not stop.is_set():
        wait = began + len(took) / WRITES_PER_S - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        took += await raw.one_in_flight(link, payload, 1, len(took))
    link.close()
    return took


async def alone(url: str, seconds: float) -> list[float]:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    return await write_beside(url, stop)


async def catch_up(url: str, count: int) -> tuple[float, list[float]]:
    """Return the seconds for the whole backlog, and the writer's times meanwhile."""
    reading = await raw.connect(url, TOPIC)
    stop = asyncio.Event()
    writer = asyncio.create_task(write_beside(url, stop))
    began = time.perf_counter()
    await raw.subscribe(reading, TOPIC, "late")
    await reading.until(lambda: reading.messages_seen >= count, timeout_s=600)
    took = time.perf_counter() - began
    stop.set()
    reading.close()
    return took, await writer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--size", type=int, default=65536, help="bytes of a message")
    args = parser.parse_args()
    per_block = max((1 << 20) // args.size, 1)
    count = int(args.gigabytes * 1e9 / args.size) // per_block * per_block
    total_mb = count * args.size / 1e6
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_instance(Path(folder)) as instance,
    ):
        took = asyncio.run(fill(instance.url, args.size, count))
        print(
            f"published {total_mb:.0f} MB, {count} entries, {total_mb / took:.0f} MB/s", flush=True
        )
        back = restart(instance, "bookie-1")
        print(f"bookie back after kill -9: {back:.1f} s", flush=True)
        print(f"broker back after kill -9: {restart(instance, 'broker-1'):.1f} s", flush=True)
        files = logs_of(instance)
        drop_cached(files)
        disk = dd(files)
        print(f"dd of {len(files)} entry logs: {disk:.0f} MB/s", flush=True)
        before = asyncio.run(alone(instance.url, 5))
        drop_cached(files)
        cpu = cpu_by_name(instance)
        took, beside = asyncio.run(catch_up(instance.url, count))
        used = {name: value - cpu[name] for name, value in cpu_by_name(instance).items()}
        rate = total_mb / took
        print(f"catch-up: {rate:.0f} MB/s, {count / took:.0f} entries/s, {rate / disk:.2f} of dd")
        for name, value in used.items():
            print(f"  {name}: {value / count * 1e6:.1f} CPU µs/entry, {value / took:.2f} cores")
        for name, times in (("alone", before), ("beside the reading", beside)):
            p50, p99 = percentile(times, 0.5) * 1e3, percentile(times, 0.99) * 1e3
            print(f"writer {name}: {len(times)} messages, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
