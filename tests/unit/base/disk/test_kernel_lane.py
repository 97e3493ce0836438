"""A lane whose writes the kernel makes: what is reported is on the disk, in order, and failures are passed on."""

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base.disk import kernel_lane
from engine.base.disk.files import DIRECT_BLOCK, DirectFile, File, SystemDisk
from engine.base.disk.kernel_lane import WRITE_BYTES_MAX, KernelLane, KernelWriter

BLOCKS = 32
A, B = b"a" * DIRECT_BLOCK, b"b" * DIRECT_BLOCK


class Rig:
    """A lane with a direct file of zeros, and what was reported in order."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "file"
        self.path.write_bytes(bytes(BLOCKS * DIRECT_BLOCK))
        self.file: File = SystemDisk().open(str(self.path), direct=True)
        self.lane = KernelLane("test")
        self.results: list[Any] = []
        self.changed = asyncio.Event()

    def report(self, name: str, result: Any, error: BaseException | None) -> None:
        self.results.append((name, result if error is None else getattr(error, "errno", error)))
        self.changed.set()

    def write(self, name: str, parts: Sequence[bytes], block: int = 0) -> None:
        self.lane.write(self.file, parts, block * DIRECT_BLOCK, partial(self.report, name))

    def call(self, name: str, work: Callable[[], Any]) -> None:
        self.lane.call(work, partial(self.report, name))

    async def until(self, count: int) -> list[Any]:
        while len(self.results) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.results

    def close(self) -> None:
        self.lane.close()
        self.file.close()


class ScriptedWriter:
    """A KernelWriter with given outcomes: an error number, below zero when it cannot begin, or the bytes written."""

    outcomes: list[int]

    def __init__(self) -> None:
        self.completions, self._wake = os.pipe()

    def begin(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        if self.outcomes[0] < 0:
            raise OSError(-self.outcomes.pop(0), "cannot begin")
        os.write(self._wake, b"x")

    def finish(self) -> int:
        os.read(self.completions, 1)
        outcome = self.outcomes.pop(0)
        if outcome < DIRECT_BLOCK // 2:
            raise OSError(outcome, "failure")
        return outcome

    def close(self) -> None:
        os.close(self.completions)
        os.close(self._wake)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedWriter]:
    monkeypatch.setattr(kernel_lane, "KernelWriter", ScriptedWriter)
    return ScriptedWriter


async def test_writes_are_in_the_file_when_they_are_reported(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for block in range(4):
        rig.write("write", [A, bytes([block]) * DIRECT_BLOCK], 2 * block)
        await rig.until(block + 1)
        assert (
            rig.path.read_bytes()[2 * block * DIRECT_BLOCK :][: 2 * DIRECT_BLOCK]
            == A + bytes([block]) * DIRECT_BLOCK
        )
    assert rig.results == [("write", 2 * DIRECT_BLOCK)] * 4
    rig.close()


async def test_calls_and_writes_keep_their_order(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = partial(rig.file.pread, 1, 0)
    rig.write("a", [A])
    rig.call("read", first)
    rig.write("b", [B])
    rig.call("read", first)
    assert await rig.until(4) == [
        ("a", DIRECT_BLOCK),
        ("read", b"a"),
        ("b", DIRECT_BLOCK),
        ("read", b"b"),
    ]
    rig.close()


async def test_writes_that_the_kernel_refuses_are_made_by_the_thread(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("large", [A * (WRITE_BYTES_MAX // DIRECT_BLOCK + 1)])
    await rig.until(1)
    rig.file.close()
    rig.file = SystemDisk().open(str(rig.path))
    rig.lane.write(rig.file, [b"part of a block"], 7, partial(rig.report, "buffered"))
    assert await rig.until(2) == [
        ("large", WRITE_BYTES_MAX + DIRECT_BLOCK),
        ("buffered", len(b"part of a block")),
    ]
    assert rig.path.read_bytes()[7:22] == b"part of a block"
    rig.close()


async def test_a_write_is_synced_and_never_blocks_the_loop(tmp_path: Path) -> None:
    try:
        writer = KernelWriter()
    except OSError as error:
        pytest.skip(f"no writes by the kernel: {error}")
    file = Rig(tmp_path).file
    assert isinstance(file, DirectFile)
    with suppress(OSError):  # the file system cannot: the request is the same
        writer.begin(file.fd, [A], 0)
        writer.finish()
    block = kernel_lane._CONTROL_BLOCK.unpack(writer._block)
    assert block[2] == os.RWF_DSYNC | os.RWF_NOWAIT
    writer.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_a_failed_write_is_reported_and_not_tried_again(
    tmp_path: Path, scripted: type[ScriptedWriter], number: int
) -> None:
    scripted.outcomes = [number]
    rig = Rig(tmp_path)
    rig.write("a", [A])
    assert await rig.until(1) == [("a", number)]
    assert rig.path.read_bytes()[:1] == b"\0"
    rig.close()


@pytest.mark.parametrize("outcome", [errno.EAGAIN, -errno.EAGAIN, -errno.EIO, DIRECT_BLOCK])
async def test_a_write_that_the_kernel_did_not_finish_is_made_by_the_thread(
    tmp_path: Path, scripted: type[ScriptedWriter], outcome: int
) -> None:
    scripted.outcomes = [outcome, 2 * DIRECT_BLOCK]
    rig = Rig(tmp_path)
    rig.write("a", [A, B])
    assert await rig.until(1) == [("a", 2 * DIRECT_BLOCK)]
    assert rig.path.read_bytes()[: 2 * DIRECT_BLOCK] == A + B
    rig.write("again", [A, B])
    await rig.until(2)
    assert scripted.outcomes == []
    rig.close()


@pytest.mark.parametrize("outcome", [errno.EOPNOTSUPP, -errno.EOPNOTSUPP])
async def test_a_file_system_that_cannot_is_not_tried_again(
    tmp_path: Path, scripted: type[ScriptedWriter], outcome: int
) -> None:
    scripted.outcomes = [outcome, DIRECT_BLOCK]
    rig = Rig(tmp_path)
    for count in (1, 2):
        rig.write("a", [A])
        assert await rig.until(count) == [("a", DIRECT_BLOCK)] * count
    assert scripted.outcomes == [DIRECT_BLOCK]
    rig.close()


async def test_a_machine_without_such_writes_has_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_lane.platform, "machine", lambda: "riscv64")
    rig = Rig(tmp_path)
    rig.write("a", [A])
    assert await rig.until(1) == [("a", DIRECT_BLOCK)]
    rig.close()


async def test_closing_waits_for_a_write_and_the_calls_behind_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("a", [A])
    rig.call("read", partial(rig.file.pread, 1, 0))
    rig.close()
    assert await rig.until(2) == [("a", DIRECT_BLOCK), ("read", b"a")]
