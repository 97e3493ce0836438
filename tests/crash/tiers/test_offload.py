"""Messages that are moved to tiered storage while brokers and bookies are killed are all read back, in order and equal.

``OFFLOAD_MESSAGES`` sets their number: a million are read back in some minutes.
"""

import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.crash.load import quiet_client
from tests.crash.test_kill import kill
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

MESSAGES = int(os.environ.get("OFFLOAD_MESSAGES", "20000"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
TOPIC = "persistent://public/default/cold"
ADMIN = "/admin/v2/persistent/public/default/cold"
BATCH = 200
KILLS = ("broker-1", "bookie-1", "broker-1", "broker-1")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    settings = {
        "MANAGED_LEDGER_OFFLOAD_DRIVER": "filesystem",
        "FILE_SYSTEM_URI": f"file://{tmp_path}/cold",
        "MANAGED_LEDGER_OFFLOAD_AUTO_TRIGGER_SIZE_THRESHOLD_BYTES": "0",
        "MANAGED_LEDGER_OFFLOAD_DELETION_LAG_MS": "0",
        "MANAGED_LEDGER_MAX_ENTRIES_PER_LEDGER": str(max(MESSAGES // BATCH // 20, 10)),
        "MANAGED_LEDGER_MIN_LEDGER_ROLLOVER_TIME_MINUTES": "0",
        "BROKER_DEDUPLICATION_ENABLED": "true",
    }
    environment = {f"MAGNETAR_{name}": value for name, value in settings.items()}
    with running_instance(tmp_path / "instance", **environment) as made:
        yield made


def content(number: int) -> bytes:
    return b"%d %s" % (number, hashlib.blake2b(b"%d" % number, digest_size=40).hexdigest().encode())


def publish(instance: Instance) -> None:
    client = quiet_client(instance.url)
    client.subscribe(TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest).close()
    producer = client.create_producer(
        TOPIC,
        producer_name="one",
        batching_enabled=True,
        batching_max_messages=BATCH,
        batching_max_publish_delay_ms=20,
        block_if_queue_full=True,
        send_timeout_millis=0,
    )
    failures: list[pulsar.Result] = []

    def sent(result: pulsar.Result, _id: object) -> None:
        if result != pulsar.Result.Ok:
            failures.append(result)

    for number in range(MESSAGES):
        producer.send_async(content(number), sent)
    producer.flush()
    producer.close()
    client.close()
    assert not failures


@pytest.mark.timeout(900)
def test_moved_messages_are_read_back_equal_while_processes_are_killed(
    instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    publishing = threading.Thread(target=publish, args=(instance,))
    publishing.start()
    for victim in KILLS:
        time.sleep(1 + chance.random())  # time: the moment of the kill is drawn
        kill(instance, victim)
        instance.wait_running(victim)
    publishing.join()

    def in_bucket() -> bool:
        status, stats = instance.rest("GET", f"{ADMIN}/internalStats")
        ledgers = stats["ledgers"] if status == 200 else []
        return bool(ledgers) and all(ledger["offloaded"] for ledger in ledgers[:-1])

    until_blocking(in_bucket, "closed ledgers are in the bucket", bound_s=240)
    kill(instance, "broker-1")  # nothing is in memory
    instance.wait_running("broker-1")
    client = quiet_client(instance.url)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    for number in range(MESSAGES):
        if number == MESSAGES // 2:
            kill(instance, "broker-1")
        data = reader.read_next(90_000).data()
        # A reader that reconnects may be given messages again.
        while int(data.partition(b" ")[0]) < number:
            data = reader.read_next(90_000).data()
        assert data == content(number)
    client.close()
    _, stats = instance.rest("GET", f"{ADMIN}/internalStats")
    objects = list((tmp_path / "cold").glob("*-index"))
    with capsys.disabled():
        moved = json.dumps({"messages": MESSAGES, "ledgers": len(stats["ledgers"])})
        print(
            f"\noffload: {moved}, {len(objects)} copies, kills {[*KILLS, 'broker-1', 'broker-1']}"
        )
    assert len(objects) >= len(stats["ledgers"]) - 1
