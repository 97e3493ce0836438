"""Pipelined V2 adds straight at a bookie: entries/s, MB/s, and CPU µs per entry of the bookie's process alone.

    python tests/bench/load_bookie.py --port 3181 --pid PID [--size 1024] [--entries 200000] [--in-flight 5000]

The frames are made beforehand, so the client costs little; CPU per entry is the figure to compare: it
holds on a busy machine.
"""

import argparse
import asyncio
import os
import struct
import time

from engine.base.crc32c import crc32c

KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
REPLY_BYTES = 28


def frames(ledger: int, first: int, count: int, size: int) -> bytes:
    """``count`` add frames with digest."""
    payload = os.urandom(size)
    out = []
    for entry in range(first, first + count):
        head = struct.pack(">qqqq", ledger, entry, entry - 1, (entry + 1) * size)
        digest = crc32c(payload, crc32c(head))
        out.append(
            struct.pack(">II20s", 60 + size, 0x02010000, KEY) + head + struct.pack(">I", digest)
        )
        out.append(payload)
    return b"".join(out)


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


class Writer(asyncio.Protocol):
    """Keeps ``in_flight`` entries unanswered until ``entries`` are answered."""

    def __init__(
        self, chunks: list[bytes], chunk: int, in_flight: int, done: "asyncio.Future[None]"
    ) -> None:
        self.chunks = chunks
        self.chunk = chunk
        self.in_flight = in_flight
        self.done = done
        self.sent = 0
        self.got = 0
        self.sent_at: list[float] = []
        self.latencies: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.push()

    def push(self) -> None:
        while (
            self.sent < len(self.chunks)
            and (self.sent + 1) * self.chunk - self.got // REPLY_BYTES <= self.in_flight
        ):
            self.sent_at.append(time.perf_counter())
            self.transport.write(self.chunks[self.sent])
            self.sent += 1

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        before = self.got // REPLY_BYTES // self.chunk
        self.got += len(data)
        for i in range(before, self.got // REPLY_BYTES // self.chunk):
            self.latencies.append(now - self.sent_at[i])
        if self.got >= len(self.chunks) * self.chunk * REPLY_BYTES:
            if not self.done.done():
                self.done.set_result(None)
        else:
            self.push()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the bookie closed the connection"))


async def run(arguments: argparse.Namespace) -> None:
    chunk = min(arguments.chunk, arguments.in_flight)
    ledger = int(time.time() * 1000)
    made = [frames(ledger, i, chunk, arguments.size) for i in range(0, arguments.entries, chunk)]
    entries = len(made) * chunk
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cpu, began = cpu_s(arguments.pid), time.perf_counter()
    _, writer = await asyncio.get_running_loop().create_connection(
        lambda: Writer(made, chunk, arguments.in_flight, done), "127.0.0.1", arguments.port
    )
    await done
    wall = time.perf_counter() - began
    cpu = cpu_s(arguments.pid) - cpu
    latencies = sorted(writer.latencies)
    print(
        f"size {arguments.size} B in flight {arguments.in_flight}: {entries / wall:,.0f} entries/s "
        f"{entries * arguments.size / wall / 1e6:,.0f} MB/s, bookie CPU {cpu / entries * 1e6:.2f} µs/entry, "
        f"p50 {latencies[len(latencies) // 2] * 1e3:.2f} ms p99 {latencies[len(latencies) * 99 // 100] * 1e3:.2f} ms, "
        f"RSS {rss_mb(arguments.pid):.0f} MB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--in-flight", type=int, default=5_000)
    parser.add_argument("--chunk", type=int, default=100)
    asyncio.run(run(parser.parse_args()))
