"""Messages are in files that are complete, and with order in one file each, whatever is killed in between."""

import json
import resource
from pathlib import Path

import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.files.files_sink import SINK_SETTINGS, FilesSink
from engine.functions.connectors.spi import ConnectorError, LostEndError, Record
from tests.support.functions.connector_host import FakeContext, Settlements
from tests.support.waiting import until


async def opened(folder: Path, context: FakeContext, **settings: object) -> FilesSink:
    sink = FilesSink()
    await sink.open(checked(SINK_SETTINGS, {"folder": str(folder), **settings}), context)
    return sink


def lines_of(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.glob("*")) for line in path.read_bytes().splitlines()]


async def test_messages_are_acknowledged_when_their_file_is_there(tmp_path: Path) -> None:
    sink, seen = await opened(tmp_path, FakeContext(), format="lines", maxMessages=3), Settlements()
    await sink.write([seen.record(n, b"v%d" % n) for n in range(5)])
    assert [record.sequence for record in seen.acked] == [0, 1, 2]
    assert lines_of(tmp_path) == [b"v0", b"v1", b"v2"]
    await sink.flush()
    await sink.close()
    assert lines_of(tmp_path) == [b"v0", b"v1", b"v2", b"v3", b"v4"]
    assert not seen.failed


async def test_messages_without_order_need_no_sequence(tmp_path: Path) -> None:
    sink, seen = await opened(tmp_path, FakeContext(), format="lines", maxMessages=2), Settlements()
    records = [seen.record(n, b"v%d" % n) for n in range(4)]
    for record in records:
        record.sequence = None
    await sink.write(records)
    await sink.close()
    assert lines_of(tmp_path) == [b"v0", b"v1", b"v2", b"v3"]
    assert len(seen.acked) == 4


async def test_an_old_bundle_is_written_though_no_message_follows(tmp_path: Path) -> None:
    sink, seen = await opened(tmp_path / "new", FakeContext(), maxSeconds=0.1), Settlements()
    await sink.write([seen.record(1, b'{"a": 1}', key="k"), seen.record(2, b"text")])
    await until(lambda: len(seen.acked) == 2)
    await sink.close()
    (path,) = (tmp_path / "new").iterdir()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0]["value"] == {"a": 1}
    assert rows[0]["key"] == "k"
    assert rows[0]["message_id"] == "7:1:0:-1"
    assert rows[0]["properties"] == {"n": "1"}
    assert rows[1]["value"] == "text"


async def test_in_order_each_message_is_in_one_file_over_kills(tmp_path: Path) -> None:
    context = FakeContext(guarantee="EFFECTIVELY_ONCE")
    acked = -1
    for step in range(1, 12):
        # Delivery begins behind the last acknowledgement that the broker has, here one file late.
        sink, seen = (
            await opened(tmp_path, context, format="lines", maxMessages=step),
            Settlements(),
        )
        await sink.write([seen.record(n, b"%d" % n) for n in range(max(0, acked - 3), 60)])
        await sink.close()  # without flush: as by a kill
        acked = max([acked, *(record.sequence or 0 for record in seen.acked)])
    sink = await opened(tmp_path, context, format="lines")
    await sink.write([seen.record(n, b"%d" % n) for n in range(60)])
    await sink.flush()
    await sink.close()
    assert lines_of(tmp_path) == [b"%d" % n for n in range(60)]


async def test_a_value_that_the_format_cannot_hold_fails_alone(tmp_path: Path) -> None:
    sink, seen = await opened(tmp_path, FakeContext(), format="lines"), Settlements()
    await sink.write([seen.record(1, b"a\nb"), seen.record(2, b"c")])
    await sink.flush()
    await sink.close()
    assert lines_of(tmp_path) == [b"c"]
    ((record, error),) = seen.failed
    assert record.sequence == 1
    assert "line feed" in str(error)


async def test_messages_fail_with_their_file(tmp_path: Path) -> None:
    sink, seen = await opened(tmp_path / "x", FakeContext(), maxMessages=1), Settlements()
    (tmp_path / "x").rmdir()
    (tmp_path / "x").write_text("a file where the folder was")
    with pytest.raises(LostEndError, match="object"):
        await sink.write([seen.record(1, b"a")])
    await sink.close()
    assert [record.sequence for record, _ in seen.failed] == [1]


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ConnectorError, match=r"configs\.folder"):
        await opened(tmp_path / "f" / "x", FakeContext())


def of_topic(seen: Settlements, topic: str, n: int) -> Record:
    record = seen.record(n, b"%d" % n)
    record.partition = record.topic = topic
    return record


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("persistent://a/b/x-y", "persistent://a/b/x_y"),
        ("persistent://a/b/x", "non-persistent://a/b/x"),
        ("persistent://a/b/x+y", "persistent://a/b/x/y"),
        ("persistent://a/b/x=2Fy", "persistent://a/b/x/y"),
        ("persistent://a/b/" + "\u4f60" * 200 + "1", "persistent://a/b/" + "\u4f60" * 200 + "2"),
        ("persistent://a/b/../../../etc/x", "persistent://a/b/.."),
    ],
)
async def test_messages_of_one_topic_are_never_taken_for_those_of_another(
    tmp_path: Path, first: str, second: str
) -> None:
    context = FakeContext(guarantee="EFFECTIVELY_ONCE")
    for topic, count in ((first, 9), (second, 5)):
        sink, seen = await opened(tmp_path / "f", context, format="lines"), Settlements()
        await sink.write([of_topic(seen, topic, n) for n in range(count)])
        await sink.flush()
        await sink.close()
        assert len(seen.acked) == count
    assert len(lines_of(tmp_path / "f")) == 14
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


async def test_a_full_disk_ends_the_sink_and_the_next_start_writes_all(tmp_path: Path) -> None:
    context, folder = FakeContext(guarantee="EFFECTIVELY_ONCE"), tmp_path / "f"
    sink, seen = await opened(folder, context, format="lines"), Settlements()
    await sink.write([seen.record(n, b"%d" % n * 1000) for n in range(10)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # such as a full disk
        with pytest.raises(LostEndError, match="File too large"):
            await sink.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    await sink.close()
    assert not seen.acked
    assert list(folder.iterdir()) == []
    sink = await opened(folder, context, format="lines")
    await sink.write([seen.record(n, b"%d" % n * 1000) for n in range(10)])
    await sink.flush()
    await sink.close()
    assert [line[:1] for line in lines_of(folder)] == [b"%d" % n for n in range(10)]


async def test_each_value_is_json_that_others_read(tmp_path: Path) -> None:
    values = [
        b"NaN",
        b'{"a": Infinity}',
        b"1e999999",
        b'{"a":1.10,\n"b":\r2}',
        b"[" * 100_000,
        b"\xff",
        b"\x00",
        b"0.1000000000000000055511151231257827",
        b"",
    ]
    sink, seen = await opened(tmp_path, FakeContext()), Settlements()
    await sink.write([seen.record(n, value) for n, value in enumerate(values)])
    await sink.flush()
    await sink.close()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    lines = lines_of(tmp_path)
    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [row.get("value") for row in rows[:4]] == [
        *("NaN", '{"a": Infinity}', float("inf"), {"a": 1.1, "b": 2})
    ]
    assert rows[4]["value"] == "[" * 100_000
    assert rows[5]["value_base64"] == "/w=="
    assert rows[6]["value"] == "\x00"
    assert lines[7].endswith(b'"value":0.1000000000000000055511151231257827}')
    assert rows[8]["value"] == ""
