"""One Spark session of the shared instance, for the tests of all analyses."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_jobs.catalogue import ANALYSES
from tests.support.analyses.runs import Answer, Shown
from tests.support.analyses.topics_with_answers import client_of
from tests.support.instance import Instance


@pytest.fixture(scope="session")
def spark(instance: Instance) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    instance.control("start", "spark")
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{instance.ports['SPARK']}").create()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def client(instance: Instance) -> Iterator[pulsar.Client]:
    with client_of(instance.url) as opened:
        yield opened


@pytest.fixture
def run(spark: Any, instance: Instance, tmp_path: Path) -> Callable[..., Answer]:
    """A function that runs an analysis on the instance, as a worker does, and returns its answer."""

    def run_one(name: str, **parameters: Any) -> Answer:
        analysis = ANALYSES[name]
        properties = analysis.parameters["properties"]
        defaults = {key: prop["default"] for key, prop in properties.items() if "default" in prop}
        context = {"metadata.url": f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"}
        shown = Shown()
        files = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"
        files.mkdir()
        # In a thread of its own: the browser's event loop is in this one.
        with ThreadPoolExecutor(1) as thread:
            result = thread.submit(
                analysis.load(),
                spark,
                defaults | parameters,
                context,
                progress=shown,
                output_dir=files,
            ).result()
        return Answer(result, shown, files)

    return run_one
