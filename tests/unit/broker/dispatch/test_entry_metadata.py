"""Broker metadata before entries is sent only to clients that read it, and only where the settings allow it."""

from dataclasses import replace

import pytest

from engine.base.slices import Slice, View
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings, LedgerDefaults
from engine.wire.kernels import stamped
from tests.support.broker_bench import Client, opened

pytestmark = pytest.mark.virtual_time

PREFIX = "org.apache.pulsar.common.intercept."


class Raw(Client):
    """A connection that keeps the bytes sent to it."""

    def __init__(self, takes: bool) -> None:
        super().__init__()
        self.takes_broker_metadata = takes
        self.data = b""

    def send(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("takes", [False, True])
@pytest.mark.parametrize("partly", [False, True])
def test_broker_metadata_is_removed_for_all_other_clients(
    exposed: bool, takes: bool, partly: bool
) -> None:
    settings = DataPathSettings(exposing_broker_entry_metadata_to_client_enabled=exposed)
    client = Raw(takes)
    kind = SubscriptionType.EXCLUSIVE
    consumer = Consumer(client, 1, "c", kind, settings=settings, partition=-1, now_ms=0)
    run = stamped(Slice(b"entry", [0, 5], 5), 1, 2)
    run.ledger_id, run.first = 3, 0
    if partly:
        consumer.deliver_partly(View(run, 0, 1), [1], 0, 0)
    else:
        consumer.deliver(View(run, 0, 1), None, 0)
    assert (b"\x0e\x02" in client.data) == (exposed and takes)
    assert client.data.endswith(b"entry")


async def test_the_version_and_flag_of_a_connection_decide() -> None:
    async with opened() as bench:
        session = bench.sessions().accept()
        for version, flag, expected in ((17, True, False), (18, False, False), (18, True, True)):
            session._client.protocol_version = version
            session._client.takes_broker_metadata = flag
            assert session.takes_broker_metadata == expected
        session.closed(None)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", (False, False)),
        ("AppendIndexMetadataInterceptor", (True, False)),
        (f"{PREFIX}AppendBrokerTimestampMetadataInterceptor", (False, True)),
        (
            f"{PREFIX}AppendIndexMetadataInterceptor, {PREFIX}AppendBrokerTimestampMetadataInterceptor",
            (True, True),
        ),
    ],
)
def test_interceptors_are_named_as_in_pulsar(names: str, expected: tuple[bool, bool]) -> None:
    config = LedgerDefaults(broker_entry_metadata_interceptors=names).config(TopicPolicies())
    assert (config.entry_indexes, config.entry_times) == expected


def test_an_unknown_interceptor_stops_the_start() -> None:
    with pytest.raises(
        ValueError, match=r"broker_entry_metadata_interceptors may name .* not Other"
    ):
        replace(LedgerDefaults(), broker_entry_metadata_interceptors="Other")
