"""Lines of the standard input, from pipes and from files."""

import asyncio
import os
from pathlib import Path

import pytest

from magnetar.command.exits import CommandFailed
from magnetar.command.messages import lines as module
from magnetar.command.messages.lines import lines


async def collected(fd: int) -> list[bytes]:
    return [line async for run in lines(fd) for line in run]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"\n\xff\r\n\nend", [b"", b"\xff\r", b"", b"end"]),
        (b"x" * 200_000 + b"\ny", [b"x" * 200_000, b"y"]),
    ],
)
async def test_a_file_is_cut_into_lines(tmp_path: Path, data: bytes, expected: list[bytes]) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    with path.open("rb") as file:
        assert await collected(file.fileno()) == expected


async def test_a_line_of_a_pipe_is_complete_when_its_end_arrives() -> None:
    reading, writing = os.pipe()
    task = asyncio.ensure_future(collected(reading))
    for part in (b"on", b"e\nt", b"wo"):
        os.write(writing, part)
        await asyncio.sleep(0)
    os.close(writing)
    assert await task == [b"one", b"two"]
    os.close(reading)


async def test_a_wait_for_input_can_be_cancelled() -> None:
    reading, writing = os.pipe()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(collected(reading), 0.01)
    os.close(reading)
    os.close(writing)


async def test_a_line_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 100_000)
    path = tmp_path / "input"
    path.write_bytes(b"x" * 300_000)
    with path.open("rb") as file, pytest.raises(CommandFailed, match="longer than"):
        await collected(file.fileno())
