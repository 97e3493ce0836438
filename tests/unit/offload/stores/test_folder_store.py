"""An object in a folder reaches the disk while it is written, and what the disk refuses is no object."""

import ctypes
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.offload.errors import ObjectStoreError, StoreTrouble
from engine.offload.stores import folder_store
from engine.offload.stores.folder_store import SYNCED_BYTES, FolderStore


async def pieces(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield bytes(size)


async def test_a_file_is_written_to_the_disk_in_small_parts_not_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple[int, int]] = []
    real = folder_store._sync_file_range

    def noted(descriptor: int, start: int, size: int, flags: int) -> int:
        parts.append((start, size))
        return int(real(descriptor, start, size, flags))

    monkeypatch.setattr(folder_store, "_sync_file_range", noted)
    sizes = (SYNCED_BYTES * 2 + 5, 3, SYNCED_BYTES)
    await FolderStore(tmp_path).put("k", pieces(*sizes), {})
    assert max(size for _, size in parts) <= SYNCED_BYTES
    assert [start for start, _ in parts] == [
        sum(size for _, size in parts[:i]) for i in range(len(parts))
    ]
    assert sum(size for _, size in parts) == sum(sizes) == (tmp_path / "k").stat().st_size


async def test_a_part_that_the_disk_does_not_take_fails_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, start: int, size: int, flags: int) -> int:
        ctypes.set_errno(errno.ENOSPC)
        return -1

    monkeypatch.setattr(folder_store, "_sync_file_range", full)
    store = FolderStore(tmp_path)
    with pytest.raises(ObjectStoreError, match="object k: No space left") as raised:
        await store.put("k", pieces(10), {})
    assert raised.value.trouble is StoreTrouble.FULL
    assert [listed async for listed in store.listed()] == []
    assert list(tmp_path.iterdir()) == []
