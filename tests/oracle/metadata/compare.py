"""Plays the same sequences against two servers and compares what they answer."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from difflib import unified_diff
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tests.oracle.metadata.normal import Normalizer
from tests.oracle.metadata.play import Player
from tests.oracle.metadata.steps import SLOTS, Generator
from tests.support.ports import free_ports
from tests.support.zookeeper.process import ZooKeeperProcess, find_java

ZOOKEEPER_OPTIONS = (
    "-Dzookeeper.extendedTypesEnabled=true",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=4096",
    "-Dznode.container.checkIntervalMs=100000000",
)
ZOOKEEPER_SETTINGS = "minSessionTimeout=1500\nmaxSessionTimeout=60000\n"
"""Sessions outlive pauses of a busy machine, except those that are to expire."""
OURS = (sys.executable, "-m", "engine", "metadata")
OUR_SETTINGS = {
    "MAGNETAR_METADATA_SERVER_SESSION_TIMEOUT_MS_MIN": "1500",
    "MAGNETAR_METADATA_SERVER_SESSION_TIMEOUT_MS_MAX": "60000",
    "MAGNETAR_METADATA_SERVER_UNUSED_CHECK_SECONDS": "100000",
}

Server = Callable[[], AbstractContextManager[int]]
"""Starts a server with no data; its value is the port."""


class Mode(Enum):
    """Ways to play: several at a time, one at a time with exact zxids, or with sessions that expire.

    ROOT is as EXACT, at the servers' root, so that sequences meet the nodes of earlier ones.
    """

    SEVERAL = "several"
    EXACT = "exact"
    EXPIRY = "expiry"
    ROOT = "root"


class Difference(NamedTuple):
    seed: str
    text: str


@contextmanager
def real_server() -> Iterator[int]:
    """Run Apache's server; yield its port."""
    java = find_java()
    assert java is not None
    with tempfile.TemporaryDirectory(prefix="zookeeper-") as directory:
        server = ZooKeeperProcess(java, Path(directory), ZOOKEEPER_OPTIONS, ZOOKEEPER_SETTINGS)
        server.start()
        try:
            yield server.port
        finally:
            server.stop()


@contextmanager
def our_server() -> Iterator[int]:
    """Run the embedded server on a disk in memory; yield its port."""
    shared_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="metadata-", dir=shared_memory) as directory:
        with open(Path(directory, "out.log"), "wb") as log:
            process = subprocess.Popen(
                [*OURS, "--data-dir", f"{directory}/data", "--port", str(port)],
                env=os.environ | OUR_SETTINGS,
                stdout=log,
                stderr=log,
            )
        try:
            _wait(port, process, Path(directory, "out.log"))
            yield port
        finally:
            process.terminate()
            process.wait()


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(log.read_text()[-2000:])


async def lines_of(port: int, seed: str, root: str, mode: Mode) -> list[str]:
    """Play the sequence of a seed; return its normalized transcript."""
    player = Player(port, SLOTS)
    exact = mode in (Mode.EXACT, Mode.ROOT)
    generator = Generator(seed, root, malformed=not exact, expiry=mode is Mode.EXPIRY)
    steps = generator.sequence()
    try:
        transcript = await player.play(steps)
        ending = []
    except (AssertionError, OSError, TimeoutError, ValueError) as error:
        transcript = player.transcript
        ending = [f"failed: {error!r}"]
    connections = Normalizer(transcript, exact=exact).lines()
    return [f"{i}: {line}" for i, lines in enumerate(connections) for line in lines] + ending


async def compare(ports: tuple[int, int], seed: str, root: str, mode: Mode) -> Difference | None:
    """Return the difference of two servers' transcripts, None when they are equal."""
    theirs, ours = await asyncio.gather(*(lines_of(port, seed, root, mode) for port in ports))
    if theirs == ours:
        return None
    return Difference(
        seed, "\n".join(unified_diff(theirs, ours, "theirs", "ours", n=3, lineterm=""))
    )


async def compare_many(
    ports: tuple[int, int],
    seeds: Iterator[str],
    in_flight: int,
    mode: Mode,
    report: Callable[[Difference], None],
) -> int:
    """Compare sequences, several at a time unless the mode is EXACT or ROOT; return their number."""
    count = 0

    async def work() -> None:
        nonlocal count
        for seed in seeds:
            count += 1
            root = "" if mode is Mode.ROOT else f"/{mode.value}-{count}/root"
            difference = await compare(ports, seed, root, mode)
            if difference is not None:
                report(difference)

    async with asyncio.TaskGroup() as group:
        for _ in range(1 if mode in (Mode.EXACT, Mode.ROOT) else in_flight):
            group.create_task(work())
    return count
