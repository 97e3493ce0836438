"""A full disk: read-only, publishing refused with the reason, nothing confirmed lost, then back again."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest

from tests.crash.kit.processes import Process, running_cluster
from tests.crash.load import Load, quiet_client
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking
from tests.support.zookeeper.process import ZooKeeperProcess

TOPIC = "persistent://public/default/full"
ENTRY_BYTES = 200_000
SMALL_MB, LARGE_MB = 160, 400


@contextmanager
def mounted(place: Path, size_mb: int) -> Iterator[Path]:
    """Mount a small file system in memory. Skips the test where mounting is not allowed."""
    place.mkdir(parents=True)
    options = ["-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(["mount", *options], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("a disk that fills up needs the program mount, which is not here")
    if done.returncode != 0:
        pytest.skip(f"a disk that fills up needs the right to mount one: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def enlarge(place: Path, size_mb: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size_mb}m", str(place)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 MB where the bookie keeps its journal and its entry logs."""
    with mounted(tmp_path / "data" / "bookie-1", SMALL_MB) as place:
        yield place


def publish_until_refused(producer: pulsar.Producer, timeout_s: float) -> tuple[int, Exception]:
    """Return how many sends were confirmed, and the error that ended them."""
    until = time.monotonic() + timeout_s
    confirmed = 0
    while time.monotonic() < until:
        try:
            producer.send(b"%d." % confirmed + os.urandom(ENTRY_BYTES))
        except pulsar.PulsarException as error:
            return confirmed, error
        confirmed += 1
    raise TimeoutError(f"the disk is not full after {confirmed} entries")


def bookies(instance: Instance) -> dict[str, str]:
    status, answer = instance.rest("GET", "/api/v1/clusters/standalone/overview")
    assert status == 200, answer
    return {bookie["id"]: bookie["state"] for bookie in answer["bookies"]}


def wait_state(instance: Instance, state: str) -> None:
    until_blocking(
        lambda: bookies(instance) == {"bookie-1": state}, lambda: bookies(instance), poll_s=0.2
    )


def test_a_full_disk_makes_the_bookie_read_only_and_loses_nothing(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_instance(
        tmp_path / "data",
        MAGNETAR_BOOKIE_DISK_CHECK_INTERVAL_S="0.5",
        MAGNETAR_BOOKIE_JOURNAL_FILE_BYTES=str(16 << 20),
    ) as instance:
        client = quiet_client(instance.url)
        consumer = client.subscribe(TOPIC, "s")
        producer = client.create_producer(TOPIC, send_timeout_millis=4000)
        confirmed, error = publish_until_refused(producer, 90)
        assert confirmed * ENTRY_BYTES > SMALL_MB * 250_000
        wait_state(instance, "read-only")
        assert "bookie is read-only" in (tmp_path / "data/logs/bookie-1.log").read_text()
        assert "EREADONLY" in (tmp_path / "data/logs/broker-1.log").read_text()
        assert instance.child("bookie-1")["restarts"] == 0

        for number in range(confirmed):
            message = consumer.receive(10_000)
            assert int(message.data().split(b".", 1)[0]) == number
            consumer.acknowledge(message)

        enlarge(small_disk, LARGE_MB)
        began = time.monotonic()
        wait_state(instance, "writable")
        while True:
            try:
                last = producer.send(b"again")
                break
            except pulsar.PulsarException:
                assert time.monotonic() - began < 30
        resumed_s = time.monotonic() - began
        while consumer.receive(10_000).message_id() != last:
            pass  # sends of unknown outcome may have been stored, too
        client.close()
    with capsys.disabled():
        print(
            f"\nfull disk: {confirmed} of {ENTRY_BYTES} bytes confirmed and read, then {error};"
            f" publishing again {resumed_s:.1f} s after there was room"
        )


ALL_THREE = {
    "journal_file_bytes": str(2 << 20),
    "write_cache_bytes": str(2 << 20),
    "min_usable_size_for_high_priority_writes": str(4 << 20),
    "disk_usage_threshold": "1",
    "disk_usage_lwm_threshold": "1",
    "disk_check_interval_s": "0.3",
    "flush_interval_s": "0.5",
}
ONE_OF_THREE = {"disk_usage_threshold": "0.8", "disk_usage_lwm_threshold": "0.7"}
"""Settings of the bookie with the small disk; the others are on the disk of the machine, however full that is."""


def wait_said(bookie: Process, words: str, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while words not in bookie.log_end(100_000):
        assert time.monotonic() < until, bookie.log_end()
        time.sleep(0.05)


def test_publishing_goes_on_while_one_disk_of_three_is_full(
    zookeeper_server: ZooKeeperProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        mounted(tmp_path / "bookie-2", 64) as disk,
        running_cluster(
            tmp_path,
            zookeeper_server,
            bookie_settings=ALL_THREE,
            special={"bookie-2": ONE_OF_THREE},
        ) as cluster,
    ):
        full = cluster.bookies[1]
        load = Load(
            cluster.url, "persistent://public/default/third", payload_bytes=50_000, rate_max=800
        )
        try:
            load.wait_confirmed(1, 60)
            wait_said(full, "bookie is read-only", 40)
            load.wait_confirmed(500, 60)
            enlarge(disk, 512)
            wait_said(full, "bookie is writable", 20)
            load.wait_confirmed(200, 60)
            assert full.alive
            load.stop_sending()
            missing = load.drain(30)
        finally:
            load.close()
        with capsys.disabled():
            print(f"\nfull disk, one of three: {load.counts(missing)}")
        assert not missing
        assert not load.failed
        assert load.in_order()
