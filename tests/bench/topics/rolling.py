"""Brokers that stop one after the other under load, and one that dies with its topics."""

import asyncio
import tempfile
from pathlib import Path

from tests.bench.contenders import unpacked
from tests.bench.figures import Figures
from tests.support.instance import ROOT, running_instance
from tests.support.instances.rolling import rolling_restart, served_again

LOADED_TOPICS = 20
RATE = 50.0
LIMIT_S = 120.0


def leaving(topics: int, revision: str = "") -> Figures:
    """Return what clients saw of a rolling restart of three brokers, and the seconds until ``topics`` topics are served
    again after the ``kill -9`` of their broker, which stays dead."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        root = unpacked(Path(folder), revision) if revision else ROOT
        data = Path(folder) / "data"
        with running_instance(data, brokers=3, bookies=3, root=root) as instance:
            result = rolling_restart(instance, LOADED_TOPICS, RATE, settle_s=3.0)
            if result.problems:
                raise RuntimeError("; ".join(result.problems))
            return {
                "longest gap of a rolling restart, s": result.longest_gap_s,
                "messages repeated": float(result.again),
                f"{topics} topics served again, s": asyncio.run(
                    served_again(instance, topics, LIMIT_S)
                ),
            }
