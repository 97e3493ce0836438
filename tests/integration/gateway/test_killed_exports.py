"""Exports of messages while the gateway or the broker is killed: a file is whole, or there is none."""

import http.client
import io
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pulsar
import pytest
from pyarrow import parquet

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until_blocking

NAMESPACE = "public/killed-exports"
API = f"/api/v1/clusters/standalone/topics/persistent/{NAMESPACE}/many/messages/export"
COUNT = 20_000
KINDS = ("jsonl", "csv", "parquet")


class Outcome(NamedTuple):
    """The result of an export. ``content`` is None where no file arrived; ``why`` says what arrived instead."""

    content: bytes | None
    why: str


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as killed:
        assert killed.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")[0] == 204
        retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 1000}
        path = f"/admin/v2/namespaces/{NAMESPACE}/retention"
        assert killed.rest("POST", path, retention)[0] == 204
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(killed.url, logger=quiet)
        producer = client.create_producer(
            f"persistent://{NAMESPACE}/many", block_if_queue_full=True
        )
        for number in range(COUNT):
            value = json.dumps({"n": number, "text": "x" * 200}).encode()
            producer.send_async(value, lambda *_: None, partition_key=f"k{number}")
        producer.flush()
        client.close()
        yield killed


def exported(instance: Instance, kind: str) -> Outcome:
    url = f"{instance.http}{API}?start=earliest&format={kind}&limit={COUNT}"
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return Outcome(reply.read(), "")
    except urllib.error.HTTPError as error:
        with error:
            return Outcome(None, f"{error.code} {error.read().decode()}")
    except (OSError, http.client.HTTPException) as error:
        return Outcome(None, repr(error))


def numbers(content: bytes, kind: str) -> list[int]:
    """Return the numbers of the messages in a file."""
    if kind == "parquet":
        # Its end has the index of all before it: a file that was cut cannot be read.
        values = parquet.read_table(io.BytesIO(content))["value"].to_pylist()
        return [json.loads(value)["n"] for value in values]
    lines = content.decode().splitlines()
    if kind == "jsonl":
        return [json.loads(line)["value"]["n"] for line in lines]
    return [int(line.partition('""n"": ')[2].partition(",")[0]) for line in lines[1:]]


@pytest.fixture(scope="module")
def took_s(instance: Instance) -> dict[str, float]:
    """Seconds that an export of each kind takes when nothing is killed."""
    times = {}
    for kind in KINDS:
        began = time.monotonic()
        whole = exported(instance, kind)
        times[kind] = time.monotonic() - began
        assert whole.content is not None, whole.why
        assert numbers(whole.content, kind) == list(range(COUNT))
    return times


@pytest.mark.parametrize("victim", ["gateway", "broker-1"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_whole_or_absent_whenever_a_part_is_killed(
    instance: Instance, took_s: dict[str, float], kind: str, victim: str
) -> None:
    absent = 0
    for part in (0.2, 0.7):
        with ThreadPoolExecutor(1) as pool:
            export = pool.submit(exported, instance, kind)
            time.sleep(took_s[kind] * part)  # time: the moment of the kill is a part of the export
            instance.kill(victim)
            outcome = export.result()
        if outcome.content is None:
            absent += 1
            assert outcome.why, "what happened is stated"
        else:
            assert numbers(outcome.content, kind) == list(range(COUNT))
        instance.wait_running(victim)
        until_blocking(instance.healthy, instance.logs)
    if victim == "gateway":
        assert absent, "a gateway that is killed during an export delivers no file"
    again = exported(instance, kind)
    assert again.content is not None, again.why
    assert numbers(again.content, kind) == list(range(COUNT))
