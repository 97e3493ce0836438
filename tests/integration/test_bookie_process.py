"""A real bookie process on real files: confirmed adds survive kill -9, and SIGTERM ends it with status 0."""

import asyncio
import random
import signal
import struct
import sys
from pathlib import Path

import pytest

from bookie.server import Bookie
from bookie.settings import BookieSettings
from bookie.tools.inspect import index_lines, journal_lines, log_lines
from engine.base.clock import SystemClock
from engine.base.disk.files import ThreadLane
from engine.base.disk.index_disk import SystemIndexDisk
from engine.base.entropy import RandomEntropy
from engine.metadata.memory import MemoryServer
from engine.net.network import LoopNetwork
from tests.support.bookies import Client, add

ROOT = Path(__file__).parents[2]

CHILD = """
import asyncio, sys
from tests.integration.test_bookie_process import run_bookie
asyncio.run(run_bookie(sys.argv[1]))
"""


async def run_bookie(directory: str) -> None:
    """Run a bookie in the child process; its metadata is new, except for the cookie of an earlier start."""
    store = MemoryServer().session()
    await prepare(store, directory)
    bookie = Bookie(
        BookieSettings(
            directory,
            bookie_port=0,
            bookie_id="b:1",
            journal_file_bytes=1 << 20,
            write_cache_bytes=1 << 20,
            flush_interval_s=0.05,
        ),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        network=LoopNetwork(),
        store=store,
        disk=SystemIndexDisk(),
        lanes=ThreadLane,
    )
    await bookie.start()
    print(bookie.port, flush=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, bookie.request_stop)
    await bookie.over.wait()
    await bookie.stop()
    await store.close()


async def prepare(store, directory: str) -> None:  # type: ignore[no-untyped-def]
    """Restore what a metadata store would have kept since the first start: here it is in the child's memory."""
    from engine.metadata import paths

    cookie = Path(directory) / "ledgers" / "current" / "VERSION"
    if cookie.exists():
        text = cookie.read_bytes()
        instance = text.split(b'instanceId: "')[1].split(b'"')[0]
        await store.create(paths.INSTANCE_ID, instance, make_parents=True)
        await store.create(paths.READ_ONLY, b"", make_parents=True)
        await store.create(paths.cookie("b:1"), text, make_parents=True)


async def start(directory: Path) -> tuple[asyncio.subprocess.Process, Client]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(directory), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    return process, Client(*await asyncio.open_connection("127.0.0.1", port))


@pytest.mark.slow
async def test_no_confirmed_add_is_lost_by_kill_9(tmp_path: Path) -> None:
    draw = random.Random(3)
    answered: dict[tuple[int, int], bytes] = {}
    following = dict.fromkeys(range(3), 0)
    for _ in range(4):
        process, client = await start(tmp_path)
        for (ledger, entry), payload in draw.sample(
            sorted(answered.items()), min(len(answered), 200)
        ):
            assert await client.read(ledger, entry) == payload
        sent: dict[tuple[int, int], bytes] = {}
        for _ in range(2000):
            ledger = draw.randrange(3)
            place = (ledger, following[ledger])
            following[ledger] += 1
            sent[place] = draw.randbytes(draw.randrange(3000))
            client.writer.write(add(*place, sent[place]))
        for _ in range(draw.randrange(100, 2000)):
            rc, ledger, entry = struct.unpack(">iqq", (await client.answer())[8:])
            assert rc == 0
            answered[ledger, entry] = sent[ledger, entry]
        process.kill()
        await process.wait()
        client.writer.transport.abort()
    process, client = await start(tmp_path)
    for (ledger, entry), payload in answered.items():
        assert await client.read(ledger, entry) == payload
    await client.close()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    assert len(answered) > 500
    current = tmp_path / "ledgers" / "current"
    assert any(
        line.startswith("ledger 1 last=") for line in index_lines(SystemIndexDisk(), str(current))
    )
    for log in current.glob("*.log"):
        assert not [line for line in log_lines(SystemIndexDisk(), str(log)) if "id=DAMAGED" in line]
    journal = tmp_path / "journal" / "current"
    used = [p for p in journal.glob("journal-*") if p.read_bytes()[:8] == b"MGJOURN1"]
    lines = [line for path in sorted(used) for line in journal_lines(SystemIndexDisk(), str(path))]
    assert any(line.startswith("  add ") for line in lines)
