"""Claims of clients that their messages are of another cluster."""

from collections.abc import AsyncIterator

import pytest

from engine.auth.actions import Action
from engine.broker.policies import DeduplicationPolicies, TopicPolicies
from engine.broker.topics.publish import Publish
from engine.wire.client_commands import send
from engine.wire.errors import ServerError
from engine.wire.geo.source_positions import SOURCE_POSITION
from engine.wire.kernels import take_sends
from tests.support.access.judges import DenyAll
from tests.support.broker_bench import NAME, Bench, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

ON = TopicPolicies(deduplication=DeduplicationPolicies(enabled=True))
PLACE = [{"key": SOURCE_POSITION, "value": "1:9"}]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        made.everything.in_force = ON
        yield made


async def begin(bench: Bench) -> None:
    await bench.registry.unload(NAME)
    await bench.load()
    await bench.topic.deduplication.ready()


async def publish(bench: Bench, *entries: bytes) -> None:
    data = b"".join(send(1, number, entry) for number, entry in enumerate(entries))
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    Publish(run, bench.producer).start()


FORGED = entry_of(b"x", sequence_id=1, replicated_from="us", properties=PLACE)
COPIED = entry_of(b"y", sequence_id=2, properties=PLACE)
PLAIN = entry_of(SOURCE_POSITION.encode(), sequence_id=0)


async def test_g1_a_client_cannot_claim_a_position_of_another_cluster(bench: Bench) -> None:
    bench.context.judge = DenyAll(*Action)
    await begin(bench)
    await publish(bench, PLAIN, FORGED, COPIED)
    await until(lambda: bench.publisher.receipts == 2)
    assert bench.topic.log.entries_added == 2
    ((sequence, code, text),) = bench.publisher.errors
    assert (sequence, code) == (1, ServerError.NotAllowedError)
    assert "Only the replicator" in text


async def test_without_authorization_nothing_is_refused(bench: Bench) -> None:
    await begin(bench)
    await publish(bench, PLAIN, FORGED, COPIED)
    await until(lambda: bench.publisher.receipts == 3)
