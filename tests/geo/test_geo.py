"""Clusters that replicate to each other under load hold every message once, whatever dies or is cut."""

from pathlib import Path

import pytest

from tests.geo.run import run

pytestmark = [pytest.mark.slow]


def test_killed_processes_and_failing_links_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    names = ("us", "eu", "ap")
    assert run(tmp_path, seconds=20, topics=6, rate=200.0, names=names, brokers=1, say=print) == []
