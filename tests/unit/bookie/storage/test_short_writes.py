"""Short writes of the operating system: a file has written all that it reports as written (I19)."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from engine.base.disk.files import DIRECT_BLOCK, STAGING_BYTES, DirectFile, SystemFile


def opened(path: Path, kind: type[SystemFile]) -> SystemFile:
    return kind(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))


PWRITE = os.pwrite


@pytest.mark.parametrize("bytes_max", [1, 7, 100])
def test_a_short_write_is_continued(
    bytes_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [bytes([i]) * (13 * i) for i in range(1, 12)]
    file = opened(tmp_path / "f", SystemFile)
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "pwritev", lambda fd, some, at: PWRITE(fd, b"".join(some)[:bytes_max], at)
        )
        patch.setattr(os, "pwrite", lambda fd, some, at: PWRITE(fd, bytes(some)[:bytes_max], at))
        assert file.pwritev(parts, 5) == sum(map(len, parts))
    assert file.pread(1 << 20, 5) == b"".join(parts)
    file.close()


def test_more_parts_than_one_call_accepts_are_all_written(tmp_path: Path) -> None:
    parts = [b"%05d" % i for i in range(3000)]
    file = opened(tmp_path / "f", SystemFile)
    assert file.pwritev(parts, 0) == 15_000
    assert file.pread(1 << 20, 0) == b"".join(parts)
    file.close()


def test_a_short_direct_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(STAGING_BYTES + 5 * DIRECT_BLOCK)
    file = opened(tmp_path / "f", DirectFile)
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "pwrite", lambda fd, some, at: PWRITE(fd, bytes(some)[: 3 * DIRECT_BLOCK], at)
        )
        assert file.pwritev([data[:100], data[100:]], DIRECT_BLOCK) == len(data)
    assert file.pread(len(data), DIRECT_BLOCK) == data
    file.close()


@pytest.mark.parametrize("kind", [SystemFile, DirectFile])
def test_a_write_that_finds_no_room_behind_its_first_part_raises(
    kind: type[SystemFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [DIRECT_BLOCK]

    def full(fd: int, some: Any, at: int) -> int:
        data = b"".join(some) if isinstance(some, list) else bytes(some)
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return PWRITE(fd, data[: room.pop()], at)

    file = opened(tmp_path / "f", kind)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space"):
            file.pwritev([bytes(DIRECT_BLOCK), bytes(DIRECT_BLOCK)], 0)
    file.close()
