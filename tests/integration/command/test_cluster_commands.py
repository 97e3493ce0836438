"""The commands for a running cluster, as users call them: processes with arguments, input and output."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until_blocking

FULL = "persistent://public/default"
AVRO = '{"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}'
Command = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as instance:
        yield instance


@pytest.fixture(scope="module")
def environment(instance: Instance) -> dict[str, str]:
    own = {"MAGNETAR_URL": instance.url, "MAGNETAR_ADMIN_URL": instance.http}
    return {**os.environ, **own, "XDG_CONFIG_HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def magnetar(environment: dict[str, str]) -> Command:
    """Run the command with arguments and return its end."""

    def run(*arguments: str, stdin: bytes = b"", status: int = 0) -> Any:
        command = [sys.executable, "-m", "magnetar", *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, env=environment, timeout=60, check=False
        )
        assert done.returncode == status, done.stderr.decode()
        return done

    return run


def lines(done: "subprocess.CompletedProcess[bytes]") -> list[str]:
    return done.stdout.decode().splitlines()


def rows(done: "subprocess.CompletedProcess[bytes]") -> list[Any]:
    return [json.loads(line) for line in lines(done)]


def test_published_messages_are_read_again(magnetar: Command) -> None:
    receipts = rows(magnetar("produce", "cmd-a", "--json", stdin=b"one\n\xff\x00\ntwo"))
    read = rows(magnetar("consume", "cmd-a", "--until-end", "--json"))
    assert [row["message_id"] for row in read] == [row["message_id"] for row in receipts]
    assert [row.get("payload", row.get("payload_base64")) for row in read] == ["one", "/wA=", "two"]


def test_hostile_names_and_payloads_are_one_line_each(magnetar: Command) -> None:
    name = f"{FULL}/cmd \u202eé%2F?#\x1b[2J"
    magnetar("produce", name, "\x1b]0;owned\x07\nline", "-k", "\x9b", "-p", "a\x1b=\r")
    (line,) = lines(magnetar("consume", name, "-n", "1", "-v"))
    assert line.endswith("key=\\x9b a\\x1b=\\r] \\x1b]0;owned\\x07\\nline")
    listed = lines(magnetar("topics", "list"))
    assert f"{FULL}/cmd \\u202eé%2F?#\\x1b[2J" in listed
    magnetar("topics", "stats", name)
    magnetar("topics", "delete", name, "-y")
    refused = magnetar("consume", name, status=5)
    assert b"\x1b" not in refused.stderr
    assert b"\\x1b[2J" in refused.stderr


def test_a_subscription_continues_and_can_be_moved(magnetar: Command) -> None:
    magnetar("produce", "cmd-s", stdin=b"a\nb\nc\nd")
    assert lines(magnetar("consume", "cmd-s", "-s", "s", "-n", "1")) == ["a"]
    assert lines(magnetar("consume", "cmd-s", "-s", "s", "-n", "2", "--no-ack")) == ["b", "c"]
    assert lines(magnetar("consume", "cmd-s", "-s", "s", "-n", "3")) == ["b", "c", "d"]
    magnetar("consume", "cmd-s", "-s", "s", "-n", "1", "--timeout", "200ms", status=1)
    magnetar("subscriptions", "reset", "cmd-s", "s", "--to", "earliest", status=2)
    magnetar("subscriptions", "reset", "cmd-s", "s", "--to", "earliest", "-y")
    assert lines(magnetar("consume", "cmd-s", "-s", "s", "-n", "1")) == ["a"]


def test_reading_creates_nothing(magnetar: Command) -> None:
    magnetar("consume", "cmd-missing", "--until-end", status=5)
    magnetar("tail", "cmd-missing", status=5)
    assert f"{FULL}/cmd-missing" not in lines(magnetar("topics", "list"))
    magnetar("produce", "cmd-r", "x")
    magnetar("consume", "cmd-r", "-n", "1")
    assert lines(magnetar("subscriptions", "list", "cmd-r")) == ["no subscriptions"]


def test_times_and_partitions_are_places(magnetar: Command) -> None:
    magnetar("topics", "create", "cmd-p", "-p", "3")
    magnetar("produce", "cmd-p", "--key-separator", ":", stdin=b"a:1\nb:2\nc:3\nd:4")
    read = rows(magnetar("consume", "cmd-p", "--from", "-1m", "--until-end", "--json"))
    assert sorted(row["payload"] for row in read) == ["1", "2", "3", "4"]
    again = rows(magnetar("consume", "cmd-p", "--from", read[0]["message_id"], "-n", "1", "--json"))
    assert again == read[:1]
    assert lines(magnetar("consume", "cmd-p", "--from", "now", "--until-end")) == []


def test_a_schema_encodes_and_decodes(magnetar: Command, instance: Instance) -> None:
    import urllib.request

    body = json.dumps({"type": "AVRO", "schema": AVRO, "properties": {}}).encode()
    url = f"{instance.http}/admin/v2/schemas/public/default/cmd-avro/schema"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request).close()
    magnetar("produce", "cmd-avro", '{"id": 9223372036854775807}')
    refused = magnetar("produce", "cmd-avro", '{"id": "x"}', status=1)
    assert b"nothing was sent" in refused.stderr
    assert b"payload.id" in refused.stderr
    (row,) = rows(magnetar("consume", "cmd-avro", "--until-end", "--json"))
    assert row["value"] == {"id": 2**63 - 1}


def test_ctrl_c_ends_tail_cleanly(magnetar: Command, environment: dict[str, str]) -> None:
    magnetar("topics", "create", "cmd-t")
    command = [sys.executable, "-m", "magnetar", "tail", "cmd-t"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        until_blocking(lambda: "consumers" in str(_subscriptions(magnetar, "cmd-t")))
        magnetar("produce", "cmd-t", "now")
        assert tail.stdout.readline() == b"now\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(60) == 130
        assert tail.stderr.read().strip() == b"magnetar: interrupted"


def _subscriptions(magnetar: Command, topic: str) -> list[Any]:
    result: list[Any] = json.loads(magnetar("subscriptions", "list", topic, "--json").stdout)
    return result


def test_a_closed_output_ends_the_command(magnetar: Command, environment: dict[str, str]) -> None:
    magnetar("produce", "cmd-e", "-q", stdin=b"x" * 1000 + b"\n" + b"y\n" * 50_000)
    command = [sys.executable, "-m", "magnetar", "consume", "cmd-e"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.readline()
        reader.stdout.close()
        assert reader.wait(60) == 1
        assert b"Traceback" not in reader.stderr.read()


def test_a_healthy_cluster_is_well(magnetar: Command, instance: Instance) -> None:
    done = magnetar("doctor", "--json", "--data-dir", str(instance.data_dir))
    report = json.loads(done.stdout)
    assert report["ok"]
    parts = {finding["part"] for finding in report["findings"]}
    assert {"process broker-1", "process bookie-1", "metadata", "leader", "clock"} <= parts


def test_a_cluster_that_does_not_answer_is_named(magnetar: Command) -> None:
    nowhere = ("--url", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1")
    for arguments in (("produce", "t", "m"), ("consume", "t"), ("topics", "list")):
        done = magnetar(*arguments, *nowhere, status=3)
        assert b"connection refused" in done.stderr
        assert done.stderr.count(b"\n") == 1
    findings = json.loads(magnetar("doctor", "--json", *nowhere, status=1).stdout)["findings"]
    assert {"REST http://127.0.0.1:1", "broker pulsar://127.0.0.1:1"} <= {
        finding["part"] for finding in findings if finding["severity"] == "problem"
    }


def test_bench_and_demo_end_in_their_time(magnetar: Command) -> None:
    result = json.loads(magnetar("bench", "--seconds", "1", "--json").stdout)
    assert result["throughput"]["consumed"] == result["throughput"]["messages"] > 0
    assert result["latency"]["publish_ms"]["p50"] > 0
    assert not [name for name in lines(magnetar("topics", "list")) if "bench" in name]
    for _ in range(2):  # a later run continues
        done = json.loads(magnetar("demo", "--minutes", "0.05", "--json").stdout)
        assert done["published"] > 0
    magnetar("subscriptions", "delete", "public/demo/clicks", "stuck", "-y")
