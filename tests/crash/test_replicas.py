"""Three bookies, entries on all of them, two answers needed: any one of them may die or stand still."""

import os
import random
import signal
import time
from typing import Any

import pytest

from tests.crash.load import Load
from tests.support.instance import Instance, running_instance

ROUNDS = max(3, int(os.environ.get("CRASH_ROUNDS", "7")) // 2)
SEED = int(os.environ.get("CRASH_SEED", "1"))


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Any:
    # A short session, so that a pause that outlasts it does not make the test long.
    with running_instance(
        tmp_path_factory.mktemp("replicas"),
        bookies=3,
        MAGNETAR_BOOKIE_ZK_TIMEOUT_S="2",
        MAGNETAR_METADATA_STORE_SESSION_TIMEOUT_MILLIS="2000",
    ) as made:
        yield made


def finish(load: Load, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that everything confirmed was received and nothing refused; print the counts."""
    try:
        load.stop_sending()
        missing = load.drain(60)
    finally:
        load.close()
    with capsys.disabled():
        print(f"\ncrash: {what}, {load.counts(missing)}")
    assert not missing
    assert not load.failed
    assert load.in_order()


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_publishing_goes_on_while_bookies_die_one_at_a_time(
    instance: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    load = Load(instance.url, "persistent://public/default/replicas", rate_max=2000)
    try:
        for _ in range(ROUNDS):
            load.wait_confirmed(50, 60)
            victim = f"bookie-{chance.randint(1, 3)}"
            # Stopped, not only killed: receipts must come while it is away, not when it is back.
            instance.control("kill", victim)
            instance.control("stop", victim)
            load.wait_confirmed(200, 60)
            instance.control("start", victim)
    except BaseException:
        load.close()
        raise
    finish(load, f"seed {SEED}, {ROUNDS} bookies killed, one of three at a time", capsys)


@pytest.mark.parametrize(
    ("name", "pause_s"),
    [("bookie-2", 0.5), ("bookie-3", 4.0), ("broker-1", 0.5), ("broker-1", 4.0)],
)
def test_a_process_that_stood_still_catches_up(
    instance: Instance, name: str, pause_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGSTOP for less and for more than the ZooKeeper session, then SIGCONT."""
    topic = f"persistent://public/default/still-{name}-{pause_s}"
    load = Load(instance.url, topic, rate_max=2000)
    pid = instance.child(name)["pid"]
    try:
        load.wait_confirmed(100, 60)
        os.kill(pid, signal.SIGSTOP)
        try:
            if name.startswith("bookie"):
                load.wait_confirmed(200, 60)
            time.sleep(pause_s)  # time: less or more than the ZooKeeper session
        finally:
            os.kill(pid, signal.SIGCONT)
        load.wait_confirmed(200, 60)
        assert instance.child(name)["pid"] == pid
    except BaseException:
        load.close()
        raise
    finish(load, f"{name} stood still for {pause_s} s", capsys)
