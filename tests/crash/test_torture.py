"""A bounded run of the torture: every kind of fault once under the official client, then a power loss of everything,
then all that got a receipt is there, in order, where the receipt said, and has all its copies."""

import os
from pathlib import Path

import pytest

from tests.crash import torture
from tests.support.zookeeper.process import ZooKeeperProcess

MESSAGES = 20_000
SECONDS = 10.0
HANGS_S = 600
"""Limit far above the time of a loaded machine; the run itself detects that there is no progress."""
SEED = int(os.environ.get("CRASH_SEED", "1"))


@pytest.mark.timeout(HANGS_S)
def test_nothing_confirmed_is_lost_or_reordered_whatever_dies(
    zookeeper_server: ZooKeeperProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = torture.run(
        tmp_path,
        zookeeper_server,
        messages=MESSAGES,
        seconds=SECONDS,
        seed=SEED,
        say=lambda line: None,
    )
    with capsys.disabled():
        print(f"\ntorture, seed {SEED}:\n{report.text()}")
    assert report.good


@pytest.mark.timeout(HANGS_S)
def test_all_confirmed_is_readable_after_every_bookie_was_wiped_and_replaced(
    zookeeper_server: ZooKeeperProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check each time that the old name is refused, a new bookie replaces the wiped one, and gets its copies."""
    report = torture.run(
        tmp_path,
        zookeeper_server,
        messages=3000,
        seconds=12.0,
        seed=SEED,
        only="bookie wiped and replaced",
        say=lambda line: None,
    )
    with capsys.disabled():
        print(f"\nbookies replaced:\n{report.text()}")
    assert report.good
    assert int(report.rows["bookie wiped and replaced"]) >= 2
    assert int(report.rows["segments copied"]) > 0
