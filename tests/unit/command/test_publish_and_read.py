"""``produce``, ``consume`` and ``tail`` with a broker in this process."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import click
import pytest

from engine.client.client import PulsarClient
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.messages import publishing, reading
from magnetar.command.messages.publishing import PublishOptions, publish
from magnetar.command.messages.reading import ReadOptions, read
from magnetar.command.messages.starts import EARLIEST, LATEST
from tests.support.broker_bench import NAME, Bench
from tests.unit.client.consuming.client_bench import Publisher, backlog, client_of, until

CONNECTION = ClusterAddress("pulsar://127.0.0.1:6650", "http://127.0.0.1:8080")
TOPIC = NAME.full
Cluster = tuple[Bench, PulsarClient]


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """A broker, and a client that the commands use."""
    async with client_of() as (bench, client):

        @asynccontextmanager
        async def connected(connection: ClusterAddress) -> AsyncIterator[PulsarClient]:
            yield client

        for module in (publishing, reading):
            monkeypatch.setattr(module, "connected", connected)
        yield bench, client


def options(*messages: str, **changes: Any) -> PublishOptions:
    given: dict[str, Any] = {
        "messages": messages, "files": (), "key": None, "key_separator": None, "properties": (),
        "event_time": None, "delay": None, "rate": None, "repeat": 1, "compression": "none",
        "chunks": False, "raw": True, "timeout": 30.0, "quiet": False, "as_json": False,
    }  # fmt: skip
    return PublishOptions.of(**given | changes)


async def printed(capsys: Any, read_options: ReadOptions) -> list[Any]:
    capsys.readouterr()
    await read(CONNECTION, TOPIC, read_options)
    lines = capsys.readouterr().out.splitlines()
    return [json.loads(line) for line in lines] if read_options.as_json else lines


async def test_receipts_are_ids_by_which_messages_are_read(cluster: Cluster, capsys: Any) -> None:
    await publish(CONNECTION, TOPIC, options("a", "b"))
    out, err = capsys.readouterr()
    assert err == f"2 messages stored in {TOPIC}\n"
    read_options = ReadOptions(EARLIEST, until_end=True, as_json=True)
    rows = await printed(capsys, read_options)
    assert [row["message_id"] for row in rows] == out.split()
    assert [row["payload"] for row in rows] == ["a", "b"]


async def test_raw_payloads_are_written_exactly(
    cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    payloads = [bytes(range(256)), b"", b"a\n", b"base64:", b"\xff" * 70_000]
    await publish(CONNECTION, TOPIC, options(files=[BytesIO(payload) for payload in payloads]))
    capfdbinary.readouterr()
    await read(CONNECTION, TOPIC, ReadOptions(EARLIEST, until_end=True, raw=True))
    assert capfdbinary.readouterr().out == b"".join(payloads)


async def test_raw_payloads_are_safe_text_to_a_terminal(
    cluster: Cluster, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(CONNECTION, TOPIC, options(files=[BytesIO(b"\x1b[2J"), BytesIO(b"\xff")]))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert await printed(capsys, ReadOptions(EARLIEST, until_end=True, raw=True)) == [
        "\\x1b[2J",
        "base64:/w==",
    ]


async def test_everything_of_a_message_arrives(cluster: Cluster, capsys: Any) -> None:
    given = options(
        files=[BytesIO(b"\xff\x1b")],
        key="kéy",
        properties=[("a", "b=c"), ("", "x")][:1],
        event_time="1234",
        compression="lz4",
    )
    await publish(CONNECTION, TOPIC, given)
    (row,) = await printed(capsys, ReadOptions(EARLIEST, count=1, as_json=True))
    assert row["payload_base64"] == "/xs="
    assert (row["key"], row["properties"], row["event_time_ms"]) == ("kéy", {"a": "b=c"}, 1234)


async def test_lines_carry_their_keys(cluster: Cluster, capsys: Any) -> None:
    given = options(files=[BytesIO(b"k:v:w")], key_separator=":")
    await publish(CONNECTION, TOPIC, given)
    (row,) = await printed(capsys, ReadOptions(EARLIEST, count=1, as_json=True))
    assert (row["key"], row["payload"]) == ("k", "v:w")


async def test_an_error_states_what_was_stored(cluster: Cluster, capsys: Any) -> None:
    given = options("small", "x" * (6 << 20), as_json=True)
    with pytest.raises(CommandFailed) as caught:
        await publish(CONNECTION, TOPIC, given)
    assert caught.value.message.startswith("1 of 2 messages stored, 1 refused; then: ")
    assert caught.value.hint == "Send it with --chunks"
    assert json.loads(capsys.readouterr().out)["message"] == 1


async def test_receipts_that_cannot_be_printed_are_counted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(text: str, **others: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(click, "echo", full)
    with pytest.raises(CommandFailed, match="1 of 1 message stored; then: cannot write the output"):
        await publish(CONNECTION, TOPIC, options("a"))


async def test_a_message_without_its_separator_sends_nothing(cluster: Cluster, capsys: Any) -> None:
    given = options("k:v", "none", key_separator=":")
    with pytest.raises(CommandFailed, match="message 2 has no key separator"):
        await publish(CONNECTION, TOPIC, given)
    assert await printed(capsys, ReadOptions(EARLIEST, until_end=True)) == []


async def test_messages_are_acknowledged_after_they_are_written(
    cluster: Cluster, capsys: Any
) -> None:
    bench, client = cluster
    publisher = await Publisher.to(client)
    await publisher.entry(b"a")
    await publisher.entry(b"b")
    by_subscription = ReadOptions(EARLIEST, count=1, subscription="s")
    assert await printed(capsys, by_subscription) == ["a"]
    await until(lambda: backlog(bench) == 1)
    assert await printed(capsys, by_subscription) == ["b"]
    await until(lambda: backlog(bench) == 0)


async def test_a_batch_written_in_part_continues_where_it_ended(
    cluster: Cluster, capsys: Any
) -> None:
    publisher = await Publisher.to(cluster[1])
    await publisher.entry(b"a", b"b", b"c")
    by_subscription = ReadOptions(EARLIEST, count=2, subscription="s")
    assert await printed(capsys, by_subscription) == ["a", "b"]
    last = ReadOptions(EARLIEST, count=1, subscription="s")
    assert await printed(capsys, last) == ["c"]


async def test_nothing_is_acknowledged_when_it_cannot_be_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, client = cluster
    await (await Publisher.to(client)).entry(b"a", b"b")

    def full(text: str, **others: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(click, "echo", full)
    with pytest.raises(CommandFailed, match="cannot write the output after 0 messages"):
        await read(CONNECTION, TOPIC, ReadOptions(EARLIEST, subscription="s"))
    assert backlog(bench) == 1


async def test_no_ack_leaves_the_backlog(cluster: Cluster, capsys: Any) -> None:
    bench, client = cluster
    await (await Publisher.to(client)).entry(b"a")
    given = ReadOptions(EARLIEST, count=1, subscription="s", acknowledge=False)
    assert await printed(capsys, given) == ["a"]
    assert await printed(capsys, given) == ["a"]
    assert backlog(bench) == 1


async def test_too_few_messages_in_time_are_an_error(cluster: Cluster) -> None:
    await (await Publisher.to(cluster[1])).entry(b"a")
    with pytest.raises(CommandFailed, match=r"1 of 2 messages arrived; then none for 0.01 s"):
        await read(CONNECTION, TOPIC, ReadOptions(EARLIEST, count=2, timeout_s=0.01))
    await read(CONNECTION, TOPIC, ReadOptions(EARLIEST, timeout_s=0.01))


async def test_the_end_of_an_empty_topic_is_reached_at_once(cluster: Cluster, capsys: Any) -> None:
    assert await printed(capsys, ReadOptions(EARLIEST, until_end=True)) == []
    await (await Publisher.to(cluster[1])).entry(b"a")
    assert await printed(capsys, ReadOptions(LATEST, until_end=True)) == []


async def test_a_hostile_message_is_one_harmless_line(cluster: Cluster, capsys: Any) -> None:
    await publish(
        CONNECTION, TOPIC, options("a\n\x1b[2J\u202e", key="\x07", properties=[("\x9b", "\r")])
    )
    (line,) = await printed(capsys, ReadOptions(EARLIEST, count=1, verbose=True))
    assert line.endswith(" key=\\x07 \\x9b=\\r] a\\n\\x1b[2J\\u202e")


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "k", "key_separator": ":"},
        {"key_separator": ""},
        {"event_time": "soon"},
        {"delay": 1e12},
        {"messages": (), "repeat": 2},
    ],
)
def test_options_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(click.UsageError):
        options(*changes.pop("messages", ("a",)), **changes)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("abc\n")
    path.chmod(0o600)
    return path


def test_a_token_is_read_from_its_file(token_file: Path) -> None:
    from magnetar.command.connecting.client import credentials

    answer = credentials(ClusterAddress("pulsar://h:1", "http://h", token_file=str(token_file)))
    assert answer is not None
    assert answer(b"") == ("token", b"abc")
    token_file.write_bytes(b"\xff")
    with pytest.raises(CommandFailed, match="holds no token") as caught:
        answer(b"renew")
    assert caught.value.exit_code == Exit.USAGE
