"""Watched patterns, the broker's metadata of entries, look-ups by HTTP and old names: Apache's Java client sees the
same from both brokers."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bench.contenders import apache
from tests.oracle.ledgers_java import LEAN, OPEN, SOURCE, compile_driver
from tests.oracle.servers import LEAN_PEER
from tests.support.instance import running_instance

INTERCEPTORS = ",".join(
    f"org.apache.pulsar.common.intercept.Append{kind}MetadataInterceptor"
    for kind in ("Index", "BrokerTimestamp")
)
START = "persistent://public/default/seen"
OLD = "persistent://public/standalone/old/topic"
EXPECTED = [
    "watch [early, last, later]",
    *(f"metadata {value} Optional[{index}] true" for index, value in enumerate("abcdef")),
    "http partitions 1",
    "http schema text",
    "http pattern [1, text]",
    *(f"legacy {OLD} old" for _ in range(2)),
]


@pytest.fixture(scope="module")
def servers(
    apache_at_hand: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[str, str]]]:
    """Service URLs of Apache's and ours, both storing and showing the broker's metadata."""
    work = tmp_path_factory.mktemp("topics")
    shown = {
        "brokerEntryMetadataInterceptors": INTERCEPTORS,
        "exposingBrokerEntryMetadataToClientEnabled": "true",
    }
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in LEAN_PEER.items():
                patch.setenv(name, value)
            theirs = stack.enter_context(apache(work, shown))
        ours = stack.enter_context(
            running_instance(
                work / "ours",
                MAGNETAR_BROKER_ENTRY_METADATA_INTERCEPTORS=INTERCEPTORS,
                MAGNETAR_EXPOSING_BROKER_ENTRY_METADATA_TO_CLIENT_ENABLED="true",
            )
        )
        yield [(theirs.url, theirs.http), (ours.url, ours.http)]


@pytest.fixture(scope="module")
def classes(apache_at_hand: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_driver(tmp_path_factory.mktemp("classes"), SOURCE / "TopicsDriver.java")


def seen(classes: str, server: tuple[str, str], *steps: str) -> list[str]:
    flags = [f"--add-opens={package}=ALL-UNNAMED" for package in OPEN]
    log = f"-Dlog4j2.configurationFile={Path(SOURCE) / 'log4j2.properties'}"
    done = subprocess.run(
        [
            "java",
            *LEAN.split(),
            *flags,
            log,
            "-Dlog.target=SYSTEM_ERR",
            "-cp",
            classes,
            "TopicsDriver",
            *server,
            *steps,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.timeout(900)
def test_topics_are_seen_alike(servers: list[tuple[str, str]], classes: str) -> None:
    steps = (START, "watch", "metadata", "http", "legacy", OLD)
    results = [seen(classes, server, *steps) for server in servers]
    assert results[0] == EXPECTED
    assert results[1] == EXPECTED
