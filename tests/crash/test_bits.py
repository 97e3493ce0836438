"""Bounded runs of the damaged bookie: nothing confirmed is lost, no other bytes are handed out."""

import os
from pathlib import Path

import pytest

from tests.crash import bits
from tests.support.zookeeper.process import ZooKeeperProcess

SEED = int(os.environ.get("CRASH_SEED", "1"))


@pytest.mark.timeout(600)
def test_a_damaged_file_of_one_bookie_loses_nothing_that_was_confirmed(
    zookeeper_server: ZooKeeperProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = bits.run(tmp_path, zookeeper_server, count=len(bits.DAMAGES), seed=SEED)
    with capsys.disabled():
        print(f"\nbits, seed {SEED}:\n{counts.text()}")
    assert not counts.wrong
    assert counts.read >= counts.confirmed > 0
