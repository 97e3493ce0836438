"""Lines and files are read once each, in order, whatever is killed in between."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.errors import UnusableField
from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.files.files_source import (
    CHUNK_BYTES,
    FILE_BYTES_MAX,
    SOURCE_SETTINGS,
    FilesSource,
)
from engine.functions.connectors.spi import ConnectorError, Record
from tests.support.functions.connector_host import FakeContext, read_all


@pytest.fixture
def context() -> FakeContext:
    return FakeContext(clock=SystemClock())


async def opened(folder: Path, context: FakeContext, **settings: object) -> FilesSource:
    source = FilesSource()
    given = {"folder": str(folder), "pollSeconds": 0.05, "quietMs": 0, **settings}
    await source.open(checked(SOURCE_SETTINGS, given), context)
    return source


def write(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(lines)


async def test_complete_lines_are_read_also_of_a_file_that_grows(
    tmp_path: Path, context: FakeContext
) -> None:
    write(tmp_path / "a.log", "one\n", "two\r\n", "thr")
    source = await opened(tmp_path, context)
    records = await read_all(source, 2)
    assert [record.value for record in records] == [b"one", b"two"]
    write(tmp_path / "a.log", "ee\n")
    (record,) = await read_all(source, 1)
    assert (record.value, record.sequence) == (b"three", 3)
    assert record.key is not None
    assert record.key.startswith("a.log@")


async def test_after_a_kill_the_same_records_have_the_same_sequences(
    tmp_path: Path, context: FakeContext
) -> None:
    for name in "abc":
        write(tmp_path / name, *(f"{name}{n}\n" for n in range(1500)))
    source = await opened(tmp_path, context)
    seen: dict[int, bytes] = {}
    kept: list[Record] = []
    for step in range(8):  # killed behind each run, before any commit
        records = list(await source.read())
        for record in records:
            assert record.sequence is not None
            assert seen.setdefault(record.sequence, record.value) == record.value
        if step % 2:
            for record in records:
                record.ack()
            await source.commit()
        else:
            kept = records
        source = await opened(tmp_path, context)
    assert kept
    while len(seen) < 4500:
        for record in await source.read():
            assert record.sequence is not None
            assert seen.setdefault(record.sequence, record.value) == record.value
            record.ack()
    expected = {f"{name}{n}".encode() for name in "abc" for n in range(1500)}
    assert set(seen.values()) == expected
    assert sorted(seen) == list(range(1, 4501))


async def test_stored_lines_are_not_read_again(tmp_path: Path, context: FakeContext) -> None:
    write(tmp_path / "a", "one\n")
    source = await opened(tmp_path, context)
    for record in await read_all(source, 1):
        record.ack()
    await source.commit()
    write(tmp_path / "a", "two\n")
    (record,) = await read_all(await opened(tmp_path, context), 1)
    assert record.value == b"two"


async def test_a_file_that_replaces_another_or_is_truncated_is_read_from_its_start(
    tmp_path: Path, context: FakeContext
) -> None:
    path = tmp_path / "a"
    write(path, "a long first line\n")
    source = await opened(tmp_path, context)
    await read_all(source, 1)
    path.write_text("short\n")
    assert [record.value for record in await read_all(source, 1)] == [b"short"]
    write(tmp_path / "b", "new\n")
    os.replace(tmp_path / "b", path)
    assert b"new" in [record.value for record in await read_all(source, 1)]


async def test_whole_files_are_deleted_once_their_message_is_stored(
    tmp_path: Path, context: FakeContext
) -> None:
    settings = {"mode": "whole", "afterwards": "delete", "pattern": "**/*.bin"}
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.bin").write_bytes(b"1\n2")
    (tmp_path / "other.txt").write_bytes(b"no")
    source = await opened(tmp_path, context, **settings)
    (record,) = await read_all(source, 1)
    assert record.value == b"1\n2"
    await source.commit()
    assert (tmp_path / "deep" / "x.bin").exists()
    record.ack()
    await source.commit()
    assert not (tmp_path / "deep" / "x.bin").exists()
    assert (tmp_path / "other.txt").exists()


async def test_instances_share_the_files(tmp_path: Path) -> None:
    for n in range(20):
        write(tmp_path / f"f{n}", f"{n}\n")
    values: list[bytes] = []
    for instance in range(2):
        context = FakeContext(instance=instance, instances=2, clock=SystemClock())
        source = await opened(tmp_path, context)
        own: list[bytes] = []
        while len(own) < 16:  # as many chunks as may be under way
            try:
                own += [r.value for r in await asyncio.wait_for(source.read(), 1)]
            except TimeoutError:
                break
        assert own
        values += own
    assert sorted(values, key=int) == [b"%d" % n for n in range(20)]


async def reported(source: FilesSource, context: FakeContext, count: int) -> list[Record]:
    """Read until so many troubles were reported, and return the records meanwhile."""
    records: list[Record] = []
    async with asyncio.timeout(30):
        while len(context.troubles) < count:
            with suppress(TimeoutError):
                records += await asyncio.wait_for(source.read(), 0.3)
    return records


async def test_a_line_or_file_too_long_is_reported_once_and_others_are_read(
    tmp_path: Path, context: FakeContext
) -> None:
    with pytest.raises(ConnectorError, match=r"configs\.folder"):
        await opened(tmp_path / "missing", context)
    (tmp_path / "a").write_bytes(b"x" * (CHUNK_BYTES + 1))
    (tmp_path / "b").write_bytes(b"fine\n")
    source = await opened(tmp_path, context)
    (record,) = await read_all(source, 1)
    assert record.value == b"fine"
    assert not await reported(source, context, 1)
    assert "a@" in context.troubles[0]
    assert "the line at byte 0 exceeds" in context.troubles[0]
    (tmp_path / "a").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    whole = await opened(tmp_path, FakeContext(clock=SystemClock()), mode="whole")
    (record,) = await read_all(whole, 1)
    assert record.value == b"fine\n"
    with suppress(TimeoutError):
        await asyncio.wait_for(source.read(), 0.5)
    assert len(context.troubles) == 1


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../*", ""])
async def test_a_pattern_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, context: FakeContext, pattern: str
) -> None:
    with pytest.raises((ConnectorError, UnusableField), match=r"configs\.pattern"):
        await opened(tmp_path, context, pattern=pattern)


@pytest.mark.parametrize("mode", ["lines", "whole"])
async def test_a_link_out_of_the_folder_is_followed_only_where_that_is_wanted(
    tmp_path: Path, context: FakeContext, mode: str
) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "folder-outside"
    folder.mkdir()
    outside.mkdir()
    write(outside / "secret", "secret\n")
    write(folder / "real", "real\n")
    (folder / "link").symlink_to(outside / "secret")
    (folder / "deep").symlink_to(outside)
    (folder / "own").symlink_to(folder / "real")
    os.mkfifo(folder / "pipe")
    settings = {"pattern": "**/*", "mode": mode}
    records = await reported(await opened(folder, context, **settings), context, 1)
    assert {record.value.strip() for record in records} == {b"real"}
    assert "leads out of the folder" in context.troubles[0]
    source = await opened(folder, FakeContext(clock=SystemClock()), followLinks=True, **settings)
    records = await read_all(source, 3)
    assert {record.value.strip() for record in records} == {b"real", b"secret"}


async def test_a_name_that_is_no_text_is_read_over_kills(
    tmp_path: Path, context: FakeContext
) -> None:
    name = os.fsdecode(b"\xff\xc3\xa4.log")
    write(tmp_path / name, "one\n")
    for _ in range(2):
        (record,) = await read_all(await opened(tmp_path, context), 1)
        assert record.value == b"one"
        assert record.key is not None
        assert record.key.startswith("\\xff\u00e4.log@")
        record.key.encode()


async def test_a_folder_that_is_gone_ends_the_source(tmp_path: Path, context: FakeContext) -> None:
    source = await opened(tmp_path, context)
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    with pytest.raises(ConnectorError, match=r"configs\.folder"):
        await asyncio.wait_for(source.read(), 30)


async def test_a_new_file_in_the_place_of_a_deleted_one_is_read(
    tmp_path: Path, context: FakeContext
) -> None:
    settings = {"mode": "whole", "afterwards": "delete"}
    for value in (b"1", b"2", b"3"):  # file systems give a new file the number of one that is gone
        (tmp_path / "spool").write_bytes(value)
        source = await opened(tmp_path, context, **settings)
        (record,) = await read_all(source, 1)
        assert record.value == value
        record.ack()
        await source.commit()
        assert not (tmp_path / "spool").exists()
        assert all(stored == b"0" for key, stored in context.state.items() if "/" in key)
